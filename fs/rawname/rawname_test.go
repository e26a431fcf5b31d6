package rawname_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/fs/rawname"
)

// pieces are what odd names are made of.
var pieces = []string{
	"a", ".", "/", "\xe9", "\x80", "\xff", "\xf4", "\x8f", "\xba", "\xbb", "\xf4\x8f", "\xf4\x8f\xba", "\xc3", "\xa9", "é", "\xed\xa0\x80",
	"\U0010FE80", "\U0010FEBF", "\U0010FEC0", "\U0010FEFF", "\U0010FEE9", "\U0010FEC3\U0010FEA9", "\U0010FE7F", "\U0010FF00", "\U0010FFFF",
	"\ufffd", "\uffff", "語", "\x00", "..", `\xe9`,
}

func odd() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if rapid.Bool().Draw(t, "bytes") {
			return string(rapid.SliceOf(rapid.Byte()).Draw(t, "raw"))
		}
		return strings.Join(rapid.SliceOf(rapid.SampledFrom(pieces)).Draw(t, "pieces"), "")
	})
}

func TestNamesOfAnyBytesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := odd().Draw(t, "name")
		name := rawname.Encode(raw)
		if !utf8.ValidString(name) {
			t.Fatalf("Encode(%q) = %q is not UTF-8", raw, name)
		}
		back, err := rawname.Decode(name)
		if err != nil || back != raw {
			t.Fatalf("Decode(Encode(%q)) = %q, %v", raw, back, err)
		}
		if n := rawname.Len(name); n != len(raw) {
			t.Fatalf("Len(Encode(%q)) = %d, want %d", raw, n, len(raw))
		}
		if plain, ok := rawname.Plain(name); ok != utf8.ValidString(raw) || plain != raw {
			t.Fatalf("Plain(Encode(%q)) = %q, %v", raw, plain, ok)
		}
		// A path is the path of its names.
		var parts []string
		for part := range strings.SplitSeq(raw, "/") {
			parts = append(parts, rawname.Encode(part))
		}
		if got := strings.Join(parts, "/"); got != name {
			t.Fatalf("the names of %q make %q, the path is %q", raw, got, name)
		}
		if !strings.Contains(raw, `\x`) && rawname.Parse(rawname.Show(name)) != raw {
			t.Fatalf("Parse(Show(%q)) = %q", name, rawname.Parse(rawname.Show(name)))
		}
	})
}

// Whatever a peer sends as a path is that of one name, or refused.
func TestNoTwoPathsAreOneName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := strings.ToValidUTF8(odd().Draw(t, "path"), "\U0010FE80")
		raw, err := rawname.Decode(path)
		if err != nil {
			if !errors.Is(err, rawname.ErrForm) {
				t.Fatal(err)
			}
			return
		}
		if again := rawname.Encode(raw); again != path {
			t.Fatalf("%q and %q are both the name %q", path, again, raw)
		}
		// Nothing below 0x80 comes out that was not there.
		ascii := func(s string) []byte {
			return slices.DeleteFunc([]byte(s), func(c byte) bool { return c >= utf8.RuneSelf })
		}
		if !bytes.Equal(ascii(raw), ascii(path)) {
			t.Fatalf("%q hides something: %q", path, raw)
		}
	})
}

func TestFormsThatEncodeNeverMakes(t *testing.T) {
	for _, path := range []string{
		"\U0010FEC3\U0010FEA9",                     // é
		"\U0010FEE2\U0010FE82\U0010FEAC",           // €
		"x\U0010FEC3\U0010FEA9/y",                  // é in a directory
		"\U0010FEF0\U0010FE9F\U0010FE98\U0010FE80", // 😀
		"\xff",
	} {
		if raw, err := rawname.Decode(path); !errors.Is(err, rawname.ErrForm) {
			t.Errorf("Decode(%q) = %q, %v; want ErrForm", path, raw, err)
		}
		if got := rawname.Raw(path); got != path {
			t.Errorf("Raw(%q) = %q", path, got)
		}
	}
	// The bytes of a slash, of NUL and of a dot have no form but their own.
	for _, c := range []rune{0, '.', '/', 'a'} {
		path := string([]rune{0x10FE00 + c})
		if raw, err := rawname.Decode(path); err != nil || raw != path {
			t.Errorf("Decode(%q) = %q, %v", path, raw, err)
		}
	}
}

func TestFormsOfNames(t *testing.T) {
	for raw, want := range map[string][2]string{
		"":                     {"", ""},
		"café":                 {"café", "café"},
		"caf\xe9":              {"caf\U0010FEE9", `caf\xe9`},
		"\xe9/\xff":            {"\U0010FEE9/\U0010FEFF", `\xe9/\xff`},
		"a\U0010FE80":          {"a\U0010FEF4\U0010FE8F\U0010FEBA\U0010FE80", "a\U0010FE80"},
		"\U0010FFFF":           {"\U0010FFFF", "\U0010FFFF"},
		"\xed\xa0\x80":         {"\U0010FEED\U0010FEA0\U0010FE80", `\xed\xa0\x80`}, // half of a pair
		strings.Repeat("日", 2): {"日日", "日日"},
	} {
		name := rawname.Encode(raw)
		if name != want[0] || rawname.Show(name) != want[1] {
			t.Errorf("Encode(%q) = %q, shown as %s; want %q, %s", raw, name, rawname.Show(name), want[0], want[1])
		}
	}
	if got := rawname.Parse(`a\xe9\x41\xg0\x`); got != "a\xe9"+`\x41\xg0\x` {
		t.Errorf("Parse: %q", got)
	}
	if got := rawname.Show("\xe9"); got != `\xe9` {
		t.Errorf("Show of bytes: %s", got)
	}
}

// The form keeps the order of names that are UTF-8, which cursors rely on.
func TestFormsKeepTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := strings.ToValidUTF8(odd().Draw(t, "a"), "\U0010FE80")
		b := strings.ToValidUTF8(odd().Draw(t, "b"), "\U0010FEFF")
		if want, got := strings.Compare(a, b), strings.Compare(rawname.Encode(a), rawname.Encode(b)); got != want {
			t.Fatalf("%q and %q: %d before, %d after", a, b, want, got)
		}
	})
}

func BenchmarkEncodePlain(b *testing.B) {
	for b.Loop() {
		if rawname.Encode("some/plain/path/of/a/source/file.go") == "" {
			b.Fatal("lost")
		}
	}
}
