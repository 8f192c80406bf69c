// A consumer of franz-go. It gets its order as one line of JSON, and prints what it does as lines of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pollTimeout     = 100 * time.Millisecond
	pauseAfterError = 100 * time.Millisecond
)

type order struct {
	Servers             string `json:"servers"`
	Group               string `json:"group"`
	Topic               string `json:"topic"`
	ClientID            string `json:"client_id"`
	InstanceID          string `json:"instance_id"`
	SessionTimeoutMs    int    `json:"session_timeout_ms"`
	HeartbeatIntervalMs int    `json:"heartbeat_interval_ms"`
	RebalanceTimeoutMs  int    `json:"rebalance_timeout_ms"`
	RequestTimeoutMs    int    `json:"request_timeout_ms"`
	CommitIntervalMs    int    `json:"commit_interval_ms"`
}

func report(what string, details map[string]any) {
	line := map[string]any{"what": what, "at_ms": time.Now().UnixMilli()}
	for name, value := range details {
		line[name] = value
	}
	encoded, _ := json.Marshal(line)
	fmt.Println(string(encoded))
}

func raised(where string, err error) {
	name := fmt.Sprintf("%T", err)
	var ofKafka *kerr.Error
	if errors.As(err, &ofKafka) {
		name = ofKafka.Message
	}
	message := err.Error()
	report("raised", map[string]any{"where": where, "error": name, "message": message[:min(200, len(message))]})
}

// The errors that end a session of the group, which franz-go gives to a hook.
type groupErrors struct{}

func (groupErrors) OnGroupManageError(err error) { raised("group", err) }

func list(what string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		for _, numbers := range partitions {
			sort.Slice(numbers, func(a, b int) bool { return numbers[a] < numbers[b] })
			report(what, map[string]any{"partitions": numbers})
		}
	}
}

func version() string {
	built, _ := debug.ReadBuildInfo()
	for _, each := range built.Deps {
		if each.Path == "github.com/twmb/franz-go" {
			return strings.TrimPrefix(each.Version, "v")
		}
	}
	return "unknown"
}

func ms(value int) time.Duration { return time.Duration(value) * time.Millisecond }

func main() {
	report("ready", map[string]any{
		"library": "franz-go",
		"version": version(),
		"runtime": "Go " + strings.TrimPrefix(runtime.Version(), "go"),
	})
	line, _ := bufio.NewReader(os.Stdin).ReadBytes('\n')
	var given order
	if err := json.Unmarshal(line, &given); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	report("settings", map[string]any{"settings": map[string]any{
		"SessionTimeout":         ms(given.SessionTimeoutMs).String(),
		"HeartbeatInterval":      ms(given.HeartbeatIntervalMs).String(),
		"RebalanceTimeout":       ms(given.RebalanceTimeoutMs).String(),
		"RequestTimeoutOverhead": ms(given.RequestTimeoutMs).String(),
		"ConsumeResetOffset":     "AtStart",
		"DisableAutoCommit":      true,
	}})
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(given.Servers, ",")...),
		kgo.ConsumerGroup(given.Group),
		kgo.ConsumeTopics(given.Topic),
		kgo.ClientID(given.ClientID),
		kgo.SessionTimeout(ms(given.SessionTimeoutMs)),
		kgo.HeartbeatInterval(ms(given.HeartbeatIntervalMs)),
		kgo.RebalanceTimeout(ms(given.RebalanceTimeoutMs)),
		kgo.RequestTimeoutOverhead(ms(given.RequestTimeoutMs)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(list("assigned")),
		kgo.OnPartitionsRevoked(list("revoked")),
		kgo.OnPartitionsLost(list("lost")),
		kgo.WithHooks(groupErrors{}),
	}
	if given.InstanceID != "" {
		options = append(options, kgo.InstanceID(given.InstanceID))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	consume(client, ms(given.CommitIntervalMs))
}

func consume(client *kgo.Client, interval time.Duration) {
	last := map[int32]int64{}
	committedAt, uncommitted := time.Now(), false
	for {
		limited, cancel := context.WithTimeout(context.Background(), pollTimeout)
		fetches := client.PollFetches(limited)
		cancel()
		failed := false
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) {
				raised("poll", err)
				failed = true
			}
		})
		if failed {
			time.Sleep(pauseAfterError)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			before, seen := last[record.Partition]
			if !seen || record.Offset != before+1 {
				what := "skipped"
				if !seen {
					what = "began"
				} else if record.Offset <= before {
					what = "read-again"
				}
				report(what, map[string]any{"partition": record.Partition, "offset": record.Offset})
			}
			last[record.Partition] = record.Offset
			uncommitted = true
		})
		if uncommitted && time.Since(committedAt) >= interval {
			committedAt, uncommitted = time.Now(), false
			if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
				raised("commit", err)
			} else {
				report("committed", nil)
			}
		}
	}
}
