package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// scenario is what the benchmark measures on; the file format is told in tests/lab/bench/scenario.py.
type scenario struct {
	protocol string
	topics   map[string]int32
	members  []kmsg.JoinGroupResponseMember
}

// bench measures franz-go's leader on a scenario: decode all subscriptions, balance, encode all assignments. Arguments:
// scenario, file for the assignments of the last run, seconds of warm-up, seconds of measuring, least number of runs in
// each of these, most runs in either. Prints one line for the very first run and for each measured one: nanoseconds of
// decode, balance, encode.
func bench(arguments []string) error {
	read, err := readScenario(arguments[0])
	if err != nil {
		return err
	}
	var numbers [5]float64
	for i := range numbers {
		if numbers[i], err = strconv.ParseFloat(arguments[i+2], 64); err != nil {
			return err
		}
	}
	runtime.LockOSThread()
	first := true
	var answer []kmsg.SyncGroupRequestGroupAssignment
	repeat := func(seconds float64, least, most int, measured bool) error {
		end := time.Now().Add(time.Duration(seconds * 1e9))
		for run := 0; run < least || (time.Now().Before(end) && run < most); run++ {
			start := now()
			member, _, err := read.balancer().MemberBalancer(read.members)
			if err != nil {
				return err
			}
			decoded := now()
			plan, err := member.(kgo.GroupMemberBalancerOrError).BalanceOrError(read.topics)
			if err != nil {
				return err
			}
			balanced := now()
			answer = plan.IntoSyncAssignment()
			encoded := now()
			if measured || first {
				fmt.Println(decoded-start, balanced-decoded, encoded-balanced)
				first = false
			}
		}
		return nil
	}
	if err := repeat(numbers[0], int(numbers[2]), int(numbers[4]), false); err != nil {
		return err
	}
	if err := repeat(numbers[1], int(numbers[3]), int(numbers[4]), true); err != nil {
		return err
	}
	return write(arguments[1], read, answer)
}

// now is in nanoseconds; with BENCH_CLOCK=cpu those of this thread's CPU time, without the garbage collector's threads.
func now() int64 {
	if os.Getenv("BENCH_CLOCK") != "cpu" {
		return time.Now().UnixNano()
	}
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
		panic(err)
	}
	return used.Nano()
}

func (s scenario) balancer() kgo.GroupBalancer {
	switch s.protocol {
	case "range":
		return kgo.RangeBalancer()
	case "roundrobin":
		return kgo.RoundRobinBalancer()
	case "sticky":
		return kgo.StickyBalancer()
	}
	return kgo.CooperativeStickyBalancer()
}

func readScenario(path string) (read scenario, err error) {
	file, err := os.Open(path)
	if err != nil {
		return read, err
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 1<<20)
	take := func(n int) []byte {
		data := make([]byte, n)
		if err == nil {
			_, err = io.ReadFull(in, data)
		}
		return data
	}
	count := func() int { return int(binary.BigEndian.Uint32(take(4))) }
	text := func() string { return string(take(int(binary.BigEndian.Uint16(take(2))))) }

	read.protocol = text()
	for n := count(); n > 0 && err == nil; n-- {
		text()
	}
	read.topics = map[string]int32{}
	for n := count(); n > 0 && err == nil; n-- {
		name, partitions := text(), count()
		read.topics[name] = int32(partitions)
		for ; partitions > 0 && err == nil; partitions-- {
			take(int(take(1)[0]))
		}
	}
	for n := count(); n > 0 && err == nil; n-- {
		member := kmsg.NewJoinGroupResponseMember()
		member.MemberID = text()
		member.ProtocolMetadata = take(count())
		read.members = append(read.members, member)
	}
	return read, err
}

func write(path string, read scenario, answer []kmsg.SyncGroupRequestGroupAssignment) error {
	blobs := map[string][]byte{}
	for _, one := range answer {
		blobs[one.MemberID] = one.MemberAssignment
	}
	var out []byte
	for _, member := range read.members {
		blob := blobs[member.MemberID]
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(blob))), blob...)
	}
	return os.WriteFile(path, out, 0o600)
}
