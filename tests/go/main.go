// Hosts Go consumers (franz-go, sarama or kafka-go), one goroutine each. Lines on stdin start and stop them (tab
// separated: "join", key=value ... and "leave", name=...); JSON lines on stdout say what each of them owns and has
// consumed. End of input or SIGTERM stops all of them in good order. As "bench" it measures franz-go's leader instead.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

type partition struct {
	topic string
	index int32
}

type span struct {
	partition
	first, last int64
}

// member is what a library needs to know, and where it reports.
type member struct {
	name   string
	fields map[string]string
}

type consume func(ctx context.Context, m member) error

var libraries = map[string]consume{"franz-go": franz, "sarama": saramaGroup, "kafka-go": segmentio}

var writing sync.Mutex

func (m member) emit(event string, extra map[string]any) {
	line := map[string]any{"event": event, "member": m.name, "t_ms": time.Now().UnixMilli()}
	for key, value := range extra {
		line[key] = value
	}
	encoded, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	writing.Lock()
	defer writing.Unlock()
	fmt.Fprintln(os.Stdout, string(encoded))
}

func (m member) moved(event string, partitions []partition) {
	listed := make([][]any, 0, len(partitions))
	for _, p := range partitions {
		listed = append(listed, []any{p.topic, p.index})
	}
	m.emit(event, map[string]any{"partitions": listed})
}

func (m member) consumed(spans []span) {
	if len(spans) == 0 {
		return
	}
	listed := make([][]any, 0, len(spans))
	for _, s := range spans {
		listed = append(listed, []any{s.topic, s.index, s.first, s.last})
	}
	m.emit("consumed", map[string]any{"ranges": listed})
}

func (m member) failed(err error) {
	m.emit("error", map[string]any{"text": err.Error()})
}

func (m member) list(key string) []string {
	return strings.Split(m.fields[key], ",")
}

func (m member) session() time.Duration {
	ms, err := strconv.Atoi(m.fields["session_ms"])
	if err != nil {
		panic(err)
	}
	return time.Duration(ms) * time.Millisecond
}

func (m member) heartbeat() time.Duration {
	told, found := m.fields["heartbeat_ms"]
	if !found {
		return 500 * time.Millisecond
	}
	ms, err := strconv.Atoi(told)
	if err != nil {
		panic(err)
	}
	return time.Duration(ms) * time.Millisecond
}

// extend adds an offset to the spans of one partition, gapless ones growing in place.
func extend(spans []span, p partition, offset int64) []span {
	if n := len(spans); n > 0 && spans[n-1].partition == p && spans[n-1].last == offset-1 {
		spans[n-1].last = offset
		return spans
	}
	return append(spans, span{p, offset, offset})
}

func parse(line string) (string, map[string]string) {
	parts := strings.Split(line, "\t")
	fields := map[string]string{}
	for _, part := range parts[1:] {
		if key, value, found := strings.Cut(part, "="); found {
			fields[key] = value
		}
	}
	return parts[0], fields
}

func main() {
	if os.Args[1] == "bench" {
		if err := bench(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	library, known := libraries[os.Args[1]]
	if !known {
		fmt.Fprintln(os.Stderr, "unknown library", os.Args[1])
		os.Exit(2)
	}
	everything, end := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer end()
	lines := make(chan string)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(os.Stdin)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	var running sync.WaitGroup
	stops := map[string]context.CancelFunc{}
	for open := true; open; {
		select {
		case <-everything.Done():
			open = false
		case line, more := <-lines:
			open = more
			verb, fields := parse(line)
			if verb == "leave" && stops[fields["name"]] != nil {
				stops[fields["name"]]()
			}
			if verb == "join" {
				ctx, stop := context.WithCancel(context.Background())
				stops[fields["name"]] = stop
				running.Add(1)
				go run(ctx, library, member{fields["name"], fields}, &running)
			}
		}
	}
	for _, stop := range stops {
		stop()
	}
	running.Wait()
}

func run(ctx context.Context, library consume, m member, running *sync.WaitGroup) {
	defer running.Done()
	m.emit("joined", nil)
	if err := library(ctx, m); err != nil && ctx.Err() == nil {
		m.failed(err)
	}
	m.emit("stopped", nil)
}
