package stats

import (
	"errors"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 4}, 4}} {
		if got := Median(c.values); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	twenty := make([]float64, 20)
	for i := range twenty {
		twenty[i] = float64(20 - i)
	}
	for _, c := range []struct {
		values  []float64
		q, want float64
	}{{nil, 0.5, 0}, {[]float64{3}, 0.95, 3}, {twenty, 0.5, 10}, {twenty, 0.95, 19}, {twenty, 1, 20}, {twenty, 0, 1}} {
		if got := Quantile(c.values, c.q); got != c.want {
			t.Errorf("Quantile(%v, %v) = %v, want %v", c.values, c.q, got, c.want)
		}
	}
}

func TestRepeatStopsAtAnError(t *testing.T) {
	n, failed := 0, errors.New("third")
	_, err := Repeat(5, func() error {
		if n++; n == 3 {
			return failed
		}
		return nil
	})
	if !errors.Is(err, failed) || n != 3 {
		t.Errorf("Repeat returned %v after %d calls", err, n)
	}
	if times, err := Repeat(4, func() error { return nil }); len(times) != 4 || err != nil {
		t.Errorf("Repeat(4) = %d times, %v", len(times), err)
	}
}

func TestFigures(t *testing.T) {
	if got := Rate(5e6, 2*time.Second); got != 2.5 {
		t.Errorf("Rate = %v", got)
	}
	if got := Milliseconds(1500 * time.Microsecond); got != 1.5 {
		t.Errorf("Milliseconds = %v", got)
	}
	for v, want := range map[float64]string{0.123: "0.12 x", 12.34: "12.3 x", 1234.5: "1234 x"} {
		if got := Number(&v, " x"); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
	if got := Number(nil, " x"); got != "-" {
		t.Errorf("Number(nil) = %q", got)
	}
}
