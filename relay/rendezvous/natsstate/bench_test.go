package natsstate

import (
	"strconv"
	"testing"

	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/natsstate/natstest"
)

func BenchmarkCluster(b *testing.B) {
	s := open(b, natstest.Start(b, 3))
	b.Run("Put", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := s.Put(b.Context(), rendezvous.BucketTokens, strconv.Itoa(i%1000), []byte("a value of some bytes"), rendezvous.AnyRevision); err != nil {
				b.Fatal(err)
			}
		}
	})
	get := func(b *testing.B) {
		if _, err := s.Get(b.Context(), rendezvous.BucketTokens, "0"); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("Get", func(b *testing.B) {
		for b.Loop() {
			get(b)
		}
	})
	b.Run("GetOfMany", func(b *testing.B) {
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				get(b)
			}
		})
	})
	b.Run("List1000", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.List(b.Context(), rendezvous.BucketTokens); err != nil {
				b.Fatal(err)
			}
		}
	})
}
