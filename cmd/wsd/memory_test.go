package main

import "testing"

func TestMemoryBudgetFlag(t *testing.T) {
	for text, want := range map[string]int64{
		"16M": 16 << 20, "512m": 512 << 20, "2G": 2 << 30, "2GiB": 2 << 30, "1T": 1 << 40, "33554432": 32 << 20,
		"": 0, "M": 0, "15M": 0, "-1G": 0, "1.5G": 0, "99999999999T": 0, "1GM": 0,
	} {
		var m memorySize
		if err := m.Set(text); (err == nil) != (want > 0) || int64(m) != want {
			t.Errorf("%q: %d, %v", text, m, err)
		}
	}
	var m memorySize
	if n := m.orDefault(); n < minBudget {
		t.Errorf("the default is %d", n)
	}
}
