package tree

import (
	"cmp"
	"slices"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		a, b Cursor
		want int
	}{
		{At(5), AtPath(5, "/a"), 1},
		{AtPath(5, "/a"), AtPath(5, "/b"), -1},
		{AtPath(5, "/a"), AtPath(5, "/a/b"), -1},
		{At(4), AtPath(5, "/a"), -1},
		{AtPath(5, "/\U0001F600"), AtPath(5, "/\uFF5E"), -1},
		{At(5), At(5), 0},
		{AtPath(5, ""), AtPath(5, ""), 0},
		{AtPath(5, ""), AtPath(5, "/"), -1},
		{AtPath(5, ""), At(5), -1},
		{Cursor{}, At(0), 0},
		{AtPath(6, ""), At(5), 1},
	} {
		if got := tt.a.Compare(tt.b); got != tt.want {
			t.Errorf("%v and %v: %d", tt.a, tt.b, got)
		}
		if got := tt.b.Compare(tt.a); got != -tt.want {
			t.Errorf("%v and %v: %d", tt.b, tt.a, got)
		}
	}
}

// The order is that of the code units, which another way gives as well.
func FuzzComparePaths(f *testing.F) {
	words := []string{"", "a", "b", "\u007f", "\u0080", "\ud7ff", "\ue000", "\uff5e", "\uffff", "\U00010000", "\U0001f600", "\U0010ffff", "é"}
	for _, a := range words {
		for _, b := range words {
			f.Add("/x"+a+"y", "/x"+b)
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			return
		}
		want := slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		if got := ComparePaths(a, b); cmp.Compare(got, 0) != want {
			t.Errorf("%q and %q: %d, want %d", a, b, got, want)
		}
	})
}
