package sqlstate

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/wsd-dev/wsd/relay/rendezvous"
)

func BenchmarkPut(b *testing.B) {
	for _, bucket := range []rendezvous.Bucket{rendezvous.BucketTokens, rendezvous.BucketAuthorizations} {
		b.Run(string(bucket), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "relay.db"))
			for i := 0; b.Loop(); i++ {
				put(b, s, bucket, strconv.Itoa(i%1000), "a value of some bytes")
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "relay.db"))
	put(b, s, rendezvous.BucketTokens, "k", "a value of some bytes")
	for b.Loop() {
		if _, err := s.Get(b.Context(), rendezvous.BucketTokens, "k"); err != nil {
			b.Fatal(err)
		}
	}
}
