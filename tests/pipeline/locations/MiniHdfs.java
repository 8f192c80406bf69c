import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS with one name node and one data node on loopback: prints its addresses for both protocols, and runs until its input ends. */
public class MiniHdfs {
    public static void main(String[] folders) throws Exception {
        Configuration settings = new Configuration();
        settings.set("hdfs.minidfs.basedir", folders[0]);
        try (MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings).numDataNodes(1).build()) {
            cluster.waitActive();
            System.out.println(cluster.getURI() + " webhdfs://" + cluster.getNameNode().getHttpAddress().getHostString()
                + ":" + cluster.getNameNode().getHttpAddress().getPort());
            System.out.flush();
            while (System.in.read() >= 0) {
            }
        }
    }
}
