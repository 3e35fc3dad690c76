// franz-go: what kproxy torture asks for in the environment.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	batch      = 10
	partitions = 3
	quietPolls = 2 // in a row without records: a consumer that has seen all is at the end of the topic
	pause      = 300 * time.Millisecond
	timeout    = 4 * time.Second
)

var (
	topic      = os.Getenv("KPROXY_TOPIC")
	records, _ = strconv.Atoi(os.Getenv("KPROXY_RECORDS"))
)

func client(more ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(more,
		kgo.SeedBrokers(os.Getenv("KPROXY_BOOTSTRAP")),
		kgo.RequestTimeoutOverhead(timeout),
		kgo.MetadataMaxAge(3*time.Second),
		kgo.MetadataMinAge(time.Second),
	)...)
	check(err)
	return made
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func made(first int) []*kgo.Record {
	var all []*kgo.Record
	for number := first; number < min(first+batch, records); number++ {
		all = append(all, &kgo.Record{Topic: topic, Partition: int32(number % partitions), Value: []byte(strconv.Itoa(number))})
	}
	return all
}

func produce() {
	producer := client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordDeliveryTimeout(30*time.Second),
		kgo.ProduceRequestTimeout(timeout))
	defer producer.Close()
	for first := 0; first < records; first += batch {
		check(producer.ProduceSync(context.Background(), made(first)...).FirstErr())
		time.Sleep(pause)
	}
}

func transact() {
	producer := client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionTimeout(20*time.Second),
		kgo.TransactionalID(os.Getenv("KPROXY_TRANSACTIONAL_ID")), kgo.RecordDeliveryTimeout(20*time.Second))
	defer producer.Close()
	for first := 0; first < records; first += batch {
		check(producer.BeginTransaction())
		check(producer.ProduceSync(context.Background(), made(first)...).FirstErr())
		check(producer.EndTransaction(context.Background(), kgo.TryCommit))
		time.Sleep(pause)
	}
}

func consume() {
	file, err := os.Create(os.Getenv("KPROXY_READ"))
	check(err)
	consumer := client(kgo.ConsumerGroup(os.Getenv("KPROXY_GROUP")), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.SessionTimeout(10*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond))
	defer consumer.Close()
	seen := map[string]bool{}
	committed, quiet := false, 0
	for len(seen) < records || !committed || quiet < quietPolls {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		found := consumer.PollRecords(ctx, batch)
		cancel()
		found.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) {
				fmt.Println("fetch:", err)
			}
		})
		found.EachRecord(func(record *kgo.Record) {
			seen[string(record.Value)] = true
			fmt.Fprintln(file, string(record.Value))
		})
		quiet++
		if found.NumRecords() > 0 {
			quiet = 0
		}
		if quiet == 0 || (!committed && quiet >= quietPolls) {
			err := consumer.CommitUncommittedOffsets(context.Background())
			committed = err == nil
			if err != nil {
				fmt.Println("commit:", err)
			}
		}
	}
}

func main() {
	map[string]func(){"produce": produce, "transact": transact, "consume": consume}[os.Getenv("KPROXY_ROLE")]()
}
