import java.lang.reflect.Field;
import java.lang.reflect.Method;
import org.apache.kafka.common.protocol.ApiKeys;

/**
 * Prints the APIs that a broker of this release shows to clients: key, first and last stable version, and the first that
 * it serves, one a line; and the transaction version that a new cluster of it agrees on, if it has such a thing
 * (KIP-584, KIP-890).
 *
 * Everything newer than the oldest release is looked up by name, so that one source fits all of them.
 */
public class PrintApis {
    public static void main(String[] arguments) throws Exception {
        for (ApiKeys api : ApiKeys.values()) {
            short last = lastStable(api);
            if (isForBrokers(api) && api.oldestVersion() <= last)
                System.out.println(api.id + " " + firstShown(api) + " " + last + " " + api.oldestVersion());
        }
        System.out.println("transaction.version " + transactionVersion());
    }

    private static short lastStable(ApiKeys api) throws Exception {
        Method method = methodOf(ApiKeys.class, "latestVersion", boolean.class);
        if (method != null)
            return (short) method.invoke(api, false);
        return api.latestVersion();
    }

    /** Since 4.0 brokers show Produce from 0 on, which they no longer serve, for the sake of librdkafka (KAFKA-18659). */
    private static short firstShown(ApiKeys api) throws Exception {
        if (api == ApiKeys.PRODUCE)
            for (Field field : ApiKeys.class.getFields())
                if (field.getName().equals("PRODUCE_API_VERSIONS_RESPONSE_MIN_VERSION"))
                    return field.getShort(null);
        return api.oldestVersion();
    }

    private static boolean isForBrokers(ApiKeys api) throws Exception {
        Class<?> kinds = classOf("org.apache.kafka.common.message.ApiMessageType$ListenerType");
        if (kinds == null)
            return true;
        Method inScope = ApiKeys.class.getMethod("inScope", kinds);
        for (Object kind : kinds.getEnumConstants())
            if (kind.toString().endsWith("BROKER") && (boolean) inScope.invoke(api, kind))
                return true;
        return false;
    }

    private static short transactionVersion() throws Exception {
        Class<?> versions = classOf("org.apache.kafka.server.common.TransactionVersion");
        if (versions == null)
            return 0;
        for (Field field : versions.getFields())
            if (field.getName().equals("LATEST_PRODUCTION"))
                return (short) versions.getMethod("featureLevel").invoke(field.get(null));
        return 0;
    }

    private static Method methodOf(Class<?> type, String name, Class<?>... parameters) {
        try {
            return type.getMethod(name, parameters);
        } catch (NoSuchMethodException absent) {
            return null;
        }
    }

    private static Class<?> classOf(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException absent) {
            return null;
        }
    }
}
