package relay_test

import (
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/relay"
)

func TestClip(t *testing.T) {
	for in, want := range map[string]string{
		"":                             "",
		"expired":                      "expired",
		"früher abgelaufen":            "früher abgelaufen",
		"\x1b[2Jall is well\r\n":       "?[2Jall is well??",
		"a\xffb":                       "a?b",
		"\u202edesrever":               "?desrever",
		strings.Repeat("x", 1000):      strings.Repeat("x", 128),
		strings.Repeat("x", 127) + "é": strings.Repeat("x", 127) + "?",
	} {
		if got := relay.Clip(in); got != want {
			t.Errorf("Clip(%q) = %q, want %q", in, got, want)
		}
	}
}
