package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
)

var saramaStrategies = map[string]func() sarama.BalanceStrategy{
	"range":              sarama.NewBalanceStrategyRange,
	"roundrobin":         sarama.NewBalanceStrategyRoundRobin,
	"sticky":             sarama.NewBalanceStrategySticky,
	"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
}

// saramaGroup consumes with sarama. A claim's goroutine is its ownership: reported when it starts and when it ends.
func saramaGroup(ctx context.Context, m member) error {
	config := sarama.NewConfig()
	config.ClientID = m.name
	config.Version = sarama.V3_2_0_0
	config.Consumer.Group.InstanceId = m.fields["instance"]
	config.Consumer.Group.Session.Timeout = m.session()
	config.Consumer.Group.Heartbeat.Interval = m.heartbeat()
	config.Consumer.Group.Rebalance.Timeout = 30 * time.Second
	config.Consumer.Group.Rebalance.GroupStrategies = nil
	for _, name := range m.list("assignors") {
		strategies := &config.Consumer.Group.Rebalance.GroupStrategies
		*strategies = append(*strategies, saramaStrategies[name]())
	}
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 500 * time.Millisecond
	config.Consumer.Return.Errors = true
	group, err := sarama.NewConsumerGroup(m.list("bootstrap"), m.fields["group"], config)
	if err != nil {
		return err
	}
	go func() {
		for failure := range group.Errors() {
			m.failed(failure)
		}
	}()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, m.list("topics"), claims{m}); err != nil && !errors.Is(err, context.Canceled) {
			m.failed(err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	return group.Close()
}

type claims struct{ m member }

func (claims) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (claims) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c claims) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	owned := partition{claim.Topic(), claim.Partition()}
	c.m.moved("assigned", []partition{owned})
	defer c.m.moved("revoked", []partition{owned})
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			c.m.consumed(extend(nil, owned, message.Offset))
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}
