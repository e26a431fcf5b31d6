package trust

import (
	"strings"
	"testing"
)

// What parses is what stands there, and can be written and read again.
func FuzzParseKnown(f *testing.F) {
	print := newFingerprint(f).String()
	f.Add("h/lab " + print)
	f.Add("# x\n\nH:1/a/b\t" + print + " note\nh/lab SHA256:")
	f.Add("h/\u00a0 x\r\n")
	f.Add("v\xff/lab " + print)
	f.Add(strings.Repeat("Ⱥ", MaxNameBytes/2-2) + "/lab " + print) // longer in lower case
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := parseKnown("f", []byte(text))
		if err != nil {
			return
		}
		var b strings.Builder
		for _, k := range keys {
			if k.Line < 1 || k.Line > strings.Count(text, "\n")+1 {
				t.Fatalf("line %d", k.Line)
			}
			b.WriteString(k.Name + " " + k.Fingerprint.String() + "\n")
		}
		again, err := parseKnown("f", []byte(b.String()))
		if err != nil || len(again) != len(keys) {
			t.Fatalf("%q: %v", b.String(), err)
		}
		for i := range keys {
			if again[i].Name != keys[i].Name || again[i].Fingerprint != keys[i].Fingerprint {
				t.Fatalf("%+v became %+v", keys[i], again[i])
			}
		}
	})
}

func FuzzParseAuthorized(f *testing.F) {
	print := newFingerprint(f).String()
	f.Add(print + " alice\n# x\n" + print)
	f.Add("SHA256:")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := parseAuthorized("f", []byte(text))
		if err != nil {
			return
		}
		for print := range keys {
			if !strings.Contains(text, print.String()) {
				t.Fatalf("%s is not in %q", print, text)
			}
		}
	})
}
