// Package stats is what the benchmarks do with what they measured.
package stats

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Repeat times f, n times.
func Repeat(n int, f func() error) ([]time.Duration, error) {
	times := make([]time.Duration, 0, n)
	for range n {
		begin := time.Now()
		if err := f(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(begin))
	}
	return times, nil
}

// Median is the middle of values, 0 if there are none.
func Median[T time.Duration | float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// Quantile is the smallest of values that a share q of them does not exceed, 0 if there are
// none.
func Quantile[T time.Duration | float64](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(max(int(math.Ceil(q*float64(len(sorted))))-1, 0), len(sorted)-1)]
}

// Milliseconds is d in ms.
func Milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }

// Rate is MB (10^6 bytes) a second.
func Rate(bytes int, d time.Duration) float64 { return float64(bytes) / 1e6 / d.Seconds() }

// Number prints v with three digits that matter, or a dash for nil.
func Number(v *float64, suffix string) string {
	switch {
	case v == nil:
		return "-"
	case *v >= 100:
		return fmt.Sprintf("%.0f%s", *v, suffix)
	case *v >= 10:
		return fmt.Sprintf("%.1f%s", *v, suffix)
	default:
		return fmt.Sprintf("%.2f%s", *v, suffix)
	}
}
