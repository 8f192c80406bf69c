// Runs kfake, the fake cluster of franz-go, on loopback until it is interrupted: the number of brokers is its argument.
// It prints the address of a broker.
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
