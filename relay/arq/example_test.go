package arq_test

import (
	"fmt"
	"time"

	"github.com/wsd-dev/wsd/relay/arq"
)

// A message of three segments, the second of which is lost. Time is what the streams are
// told; the loop of relay does the same with sockets and a real clock.
func Example() {
	config := arq.Config{
		Seal: func(_ arq.Data, prefix, piece []byte) ([]byte, error) {
			return append(append([]byte{}, prefix...), piece...), nil // no secrets here
		},
		Open: func(d arq.Data) ([]byte, error) { return d.Payload, nil },
	}
	now := time.Now()
	ends := [2]*arq.Stream{arq.New(config, now), arq.New(config, now)}
	if err := ends[0].Write(make([]byte, 2*arq.MaxPiece+1)); err != nil {
		fmt.Println(err)
	}
	for lost := false; !ends[0].Flushed(); {
		for i, s := range ends {
			for f, ok := s.Next(now); ok; f, ok = s.Next(now) {
				fmt.Println("end", i, "sends", f.Kind, f.Data.Seq)
				if f.Kind == arq.KindData && f.Data.Seq == 1 && !lost {
					lost = true
					continue
				}
				if err := ends[1-i].Handle(now, f); err != nil {
					fmt.Println(err)
				}
			}
		}
		if message, ok := ends[1].Message(now); ok {
			fmt.Println("received", len(message), "bytes")
		}
		now = now.Add(10 * time.Millisecond)
	}
	// Output:
	// end 0 sends data 0
	// end 0 sends data 1
	// end 0 sends data 2
	// end 1 sends ack 0
	// end 0 sends data 1
	// end 1 sends ack 0
	// received 122881 bytes
}
