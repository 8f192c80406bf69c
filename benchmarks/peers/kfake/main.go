// Serves franz-go's kfake on a free port of this machine until it is killed, for benchmarks/heartbeats.py.
package main

import (
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("listening on", cluster.ListenAddrs()[0])
	select {}
}
