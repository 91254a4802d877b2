package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var franzBalancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
}

// franz consumes with franz-go, which commits by itself what earlier polls returned.
func franz(ctx context.Context, m member) error {
	var balancers []kgo.GroupBalancer
	for _, name := range m.list("assignors") {
		balancers = append(balancers, franzBalancers[name]())
	}
	report := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, moved map[string][]int32) {
			var partitions []partition
			for topic, indices := range moved {
				for _, index := range indices {
					partitions = append(partitions, partition{topic, index})
				}
			}
			m.moved(event, partitions)
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(m.list("bootstrap")...),
		kgo.ClientID(m.name),
		kgo.ConsumerGroup(m.fields["group"]),
		kgo.ConsumeTopics(m.list("topics")...),
		kgo.Balancers(balancers...),
		kgo.SessionTimeout(m.session()),
		kgo.HeartbeatInterval(m.heartbeat()),
		kgo.RebalanceTimeout(30 * time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitInterval(500 * time.Millisecond),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(report("assigned")),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, moved map[string][]int32) {
			if err := client.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
				m.failed(err)
			}
			report("revoked")(ctx, client, moved)
		}),
		kgo.OnPartitionsLost(report("lost")),
	}
	if rack := m.fields["rack"]; rack != "" {
		options = append(options, kgo.Rack(rack))
	}
	if instance := m.fields["instance"]; instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	if age, err := strconv.Atoi(m.fields["metadata_ms"]); err == nil {
		options = append(options, kgo.MetadataMaxAge(time.Duration(age)*time.Millisecond))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.Canceled) {
				m.failed(err)
			}
		})
		var spans []span
		fetches.EachRecord(func(record *kgo.Record) {
			spans = extend(spans, partition{record.Topic, record.Partition}, record.Offset)
		})
		m.consumed(spans)
		client.AllowRebalance()
	}
	return nil
}
