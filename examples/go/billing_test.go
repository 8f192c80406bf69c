// Tests of a service with franz-go: one consumer is dead, the answer to a commit is lost, the coordinator moves.
//
//	go test .
package billing

import (
	"context"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const group = "billing"

// service is what is tested: it handles each order and commits it.
type service struct {
	t         *testing.T
	committed chan string
}

func startService(t *testing.T, brokers []string, clientID string) *service {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ClientID(clientID),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(100*time.Millisecond), // a consumer learns of a rebalance by its next heartbeat
	)
	check(t, err)
	running, stop := context.WithCancel(context.Background())
	started := &service{t: t, committed: make(chan string, 100)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for running.Err() == nil {
			fetches := client.PollFetches(running)
			fetches.EachRecord(func(record *kgo.Record) {
				if client.CommitRecords(running, record) == nil {
					started.committed <- string(record.Value)
				}
			})
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		client.Close()
	})
	return started
}

// handled waits until so many orders have been handled and committed.
func (s *service) handled(count int) []string {
	s.t.Helper()
	var orders []string
	for len(orders) < count {
		select {
		case order := <-s.committed:
			orders = append(orders, order)
		case <-time.After(20 * time.Second):
			s.t.Fatalf("only %q were committed", orders)
		}
	}
	return orders
}

func TestADeadConsumerIsReplaced(t *testing.T) {
	kafka := startRegroup(t, "--topic", "orders:6")
	startService(t, kafka.brokers, "first")
	startService(t, kafka.brokers, "second")
	kafka.look("/group/wait-stable", url.Values{"group": {group}, "members": {"2"}})
	kafka.act("/client/crash", values{"client": "second"})
	now := kafka.look("/group/wait-stable", url.Values{"group": {group}, "members": {"1"}})
	member := now["members"].([]any)[0].(map[string]any)
	if member["client_id"] != "first" || len(member["partitions"].([]any)) != 6 {
		t.Errorf("the member is %v", member)
	}
	kafka.act("/client/revive", values{"client": "second"}) // so that it can leave
}

func TestNoOrderIsHandledTwiceAfterALostCommit(t *testing.T) {
	kafka := startRegroup(t, "--topic", "orders:1")
	rule := kafka.act("/fault/add", values{"on": "OffsetCommit", "group": group, "close": "after", "times": 1})
	service := startService(t, kafka.brokers, "first")
	kafka.act("/topic/produce", values{"topic": "orders", "value": "one pear"})
	kafka.look("/fault/wait-hits", url.Values{"fault": {number(rule["fault"])}})
	kafka.act("/topic/produce", values{"topic": "orders", "value": "two plums"})
	if orders := service.handled(2); !slices.Equal(orders, []string{"one pear", "two plums"}) {
		t.Errorf("handled %q", orders)
	}
}

func TestAServiceFollowsItsCoordinator(t *testing.T) {
	kafka := startRegroup(t, "--topic", "orders:1", "--brokers", "2")
	service := startService(t, kafka.brokers, "first")
	kafka.act("/topic/produce", values{"topic": "orders", "value": "one pear"})
	orders := service.handled(1)
	before := kafka.look("/group", url.Values{"group": {group}})
	kafka.act("/coordinator/move", values{"group": group})
	kafka.act("/topic/produce", values{"topic": "orders", "value": "two plums"})
	orders = append(orders, service.handled(1)...)
	after := kafka.look("/group", url.Values{"group": {group}})
	if !slices.Equal(orders, []string{"one pear", "two plums"}) {
		t.Errorf("handled %q", orders)
	}
	if before["generation"] != after["generation"] {
		t.Errorf("a rebalance: generation %v became %v", before["generation"], after["generation"])
	}
}
