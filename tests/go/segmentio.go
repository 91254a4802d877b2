package main

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"
)

var segmentioBalancers = map[string]kafka.GroupBalancer{
	"range":      kafka.RangeGroupBalancer{},
	"roundrobin": kafka.RoundRobinGroupBalancer{},
}

// segmentio consumes with kafka-go's consumer group: one reader per partition and generation.
func segmentio(ctx context.Context, m member) error {
	var balancers []kafka.GroupBalancer
	for _, name := range m.list("assignors") {
		balancers = append(balancers, segmentioBalancers[name])
	}
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                m.fields["group"],
		Brokers:           m.list("bootstrap"),
		Dialer:            &kafka.Dialer{ClientID: m.name, Timeout: 10 * time.Second},
		Topics:            m.list("topics"),
		GroupBalancers:    balancers,
		SessionTimeout:    m.session(),
		HeartbeatInterval: m.heartbeat(),
		RebalanceTimeout:  30 * time.Second,
		JoinGroupBackoff:  500 * time.Millisecond,
		StartOffset:       kafka.FirstOffset,
	})
	if err != nil {
		return err
	}
	defer group.Close()
	for {
		generation, err := group.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			m.failed(err)
			continue
		}
		for topic, assigned := range generation.Assignments {
			for _, one := range assigned {
				owned := partition{topic, int32(one.ID)}
				m.moved("assigned", []partition{owned})
				from := one.Offset
				generation.Start(func(ctx context.Context) {
					defer m.moved("revoked", []partition{owned})
					if err := read(ctx, m, generation, owned, from); err != nil && !errors.Is(err, context.Canceled) {
						m.failed(err)
					}
				})
			}
		}
	}
}

func read(ctx context.Context, m member, generation *kafka.Generation, owned partition, from int64) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:   m.list("bootstrap"),
		Topic:     owned.topic,
		Partition: int(owned.index),
		MaxWait:   200 * time.Millisecond,
		MaxBytes:  1 << 20,
	})
	defer reader.Close()
	if err := reader.SetOffset(from); err != nil {
		return err
	}
	for committed := time.Now(); ; {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			if errors.Is(err, kafka.ErrGenerationEnded) {
				return nil
			}
			return err
		}
		m.consumed(extend(nil, owned, message.Offset))
		if time.Since(committed) < 500*time.Millisecond {
			continue
		}
		committed = time.Now()
		offsets := map[string]map[int]int64{owned.topic: {int(owned.index): message.Offset + 1}}
		if err := generation.CommitOffsets(offsets); err != nil {
			m.failed(err)
		}
	}
}
