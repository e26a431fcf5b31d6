package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

const (
	// minBudget is the least --memory-budget: with less, not even messages of a few
	// megabytes would pass.
	minBudget = 16 << 20
	// unknownMemory is assumed where the system does not say how much there is.
	unknownMemory = 4 << 30
)

// memorySize is a flag: a number of bytes with K, M, G or T for powers of 1,024. 0 is the
// default.
type memorySize int64

// Type implements pflag.Value.
func (*memorySize) Type() string { return "size" }

// String implements pflag.Value.
func (m *memorySize) String() string {
	if *m == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*m), 10)
}

// Set implements pflag.Value.
func (m *memorySize) Set(text string) error {
	n, err := parseSize(text)
	if err != nil {
		return err
	}
	if n < minBudget {
		return fmt.Errorf("it must be %dM or more", minBudget>>20)
	}
	*m = memorySize(n)
	return nil
}

// parseSize reads a number of bytes with K, M, G or T for powers of 1,024.
func parseSize(text string) (int64, error) {
	digits := strings.TrimRight(strings.ToUpper(text), "IB")
	shift := 0
	if i := strings.IndexAny(digits, "KMGT"); i >= 0 && i == len(digits)-1 {
		shift = 10 * (1 + strings.IndexByte("KMGT", digits[i]))
		digits = digits[:i]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return 0, errors.New("want a whole number of bytes, or of K, M, G or T, such as 512M or 2G")
	}
	return n << shift, nil
}

// orDefault is the budget in bytes: a quarter of the memory there is, unless the flag says
// otherwise.
func (m *memorySize) orDefault() int64 {
	if *m != 0 {
		return int64(*m)
	}
	total := int64(unknownMemory)
	if n := systemMemory(); n > 0 {
		total = n
	}
	return max(total/4, minBudget)
}

// budget is the budget of a server. An eighth of the memory is left to the garbage
// collector: it need not run all the time while all else is in use, and garbage that it
// finds late on a busy machine does not exceed the budget.
func (m *memorySize) budget() *rpc.Budget {
	size := m.orDefault()
	b := rpc.NewBudget(size - size/8)
	b.Guard(size)
	return b
}
