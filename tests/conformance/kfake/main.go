// kfake, franz-go's fake cluster, with so many brokers on loopback until it is interrupted. It prints an address.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	brokers, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(brokers),
		kfake.GroupMinSessionTimeout(100*time.Millisecond),
		kfake.GroupMaxSessionTimeout(30*time.Minute),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	fmt.Println(cluster.ListenAddrs()[0])
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	<-stop
}
