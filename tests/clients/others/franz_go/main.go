// A consumer of franz-go that prints its assignments, records and commits as lines of JSON.
//
//	consume HOST:PORT GROUP TOPIC ASSIGNOR SESSION_TIMEOUT_MS [INSTANCE]
//
// The assignor `consumer` stands for the consumer protocol (KIP-848), any other for `range`. A topic that begins with ~
// is a regular expression. On SIGTERM the consumer is closed.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func report(what string, details map[string]any) {
	encoded, _ := json.Marshal(details)
	// Tests recognise our lines by their beginning.
	if details == nil {
		fmt.Printf("{\"what\": \"%s\"}\n", what)
	} else {
		fmt.Printf("{\"what\": \"%s\", %s\n", what, string(encoded)[1:])
	}
}

func list(what string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		listed := [][]any{}
		for topic, numbers := range partitions {
			for _, number := range numbers {
				listed = append(listed, []any{topic, number})
			}
		}
		report(what, map[string]any{"partitions": listed})
	}
}

func main() {
	words := os.Args[1:]
	timeout, err := strconv.Atoi(words[4])
	if err != nil {
		panic(err)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(words[0]),
		kgo.ConsumerGroup(words[1]),
		kgo.ConsumeTopics(strings.TrimPrefix(words[2], "~")),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(list("assigned")),
		kgo.OnPartitionsRevoked(list("revoked")),
		kgo.OnPartitionsLost(list("lost")),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
	}
	if strings.HasPrefix(words[2], "~") {
		options = append(options, kgo.ConsumeRegex())
	}
	if words[3] == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	} else {
		options = append(options, kgo.SessionTimeout(time.Duration(timeout)*time.Millisecond),
			kgo.HeartbeatInterval(200*time.Millisecond))
	}
	if len(words) > 5 {
		options = append(options, kgo.InstanceID(words[5]))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	consume(stopped, client)
	client.Close()
	report("closed", nil)
}

func consume(stopped context.Context, client *kgo.Client) {
	for stopped.Err() == nil {
		fetches := client.PollFetches(stopped)
		read := 0
		fetches.EachRecord(func(record *kgo.Record) {
			read++
			report("record", map[string]any{"topic": record.Topic, "partition": record.Partition,
				"offset": record.Offset, "value": string(record.Value)})
		})
		if read > 0 && client.CommitUncommittedOffsets(context.Background()) == nil {
			report("committed", nil)
		}
	}
}
