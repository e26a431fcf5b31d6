package tree

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
)

// The vectors of the specification.
func TestVectors(t *testing.T) {
	alpha := Part{Sum([]byte("alpha")), 5}
	big := bytes.Repeat([]byte("B"), ChunkSize)
	two := []Part{{Sum(big), ChunkSize}, {Sum([]byte("CCCCC")), 5}}
	file := &Node{Kind: KindFile, Mode: 0o100644, Manifest: ManifestOf([]Part{alpha})}
	for name, tt := range map[string][2]string{
		"alpha":            {alpha.Hash.String(), "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8"},
		"manifest":         {ManifestOf([]Part{alpha}).String(), "0e0659d17f6b853f07d27e318cfa33bf3d2925f1a7e2d8abb7ee526cc08cdd16"},
		"empty manifest":   {ManifestOf(nil).String(), "e992d437058c0c5cdd5933815b464a572d10d16450d26e038bff29658f95620a"},
		"first of two":     {two[0].Hash.String(), "55854a6b13148e4237a428566701ec6655e85b94bc36395a1d02c7e9f9cceacf"},
		"second of two":    {two[1].Hash.String(), "17b80bc751e1f35c75d6ada07267a5fd9981b7b3655cffcaf94a636e93eb27ba"},
		"manifest of two":  {ManifestOf(two).String(), "e9dbdba00881852adf3c8133ef14018d5d2b909396b10074776a6642b66e1cb2"},
		"file before":      {hex.EncodeToString(fingerprint(file)), "133f59f26825ffdb38f9d7774807cb47b82beed7aba84ef8cdf775909ae68979"},
		"link before":      {hex.EncodeToString(fingerprint(&Node{Kind: KindSymlink, Mode: 0o777, Target: "a.txt"})), "281b7519852f7fa94c6e0592f3a0f4c99b8c42e7262c3f1a64368a8cd8a980dd"},
		"directory before": {hex.EncodeToString(fingerprint(&Node{Kind: KindDir, Mode: 0o755})), "8005b43fb02a795e6a11dd305b107499b10af35fb7fb66a8411cdb323a4f4434"},
		"stub before":      {hex.EncodeToString(fingerprint(&Node{Kind: KindFile, Stub: true})), ""},
		"file's entry":     {Fingerprint(&Entry{Kind: KindFile, Mode: 0o644, Parts: []Part{alpha}}), "133f59f26825ffdb38f9d7774807cb47b82beed7aba84ef8cdf775909ae68979"},
		"link's entry":     {Fingerprint(&Entry{Kind: KindSymlink, Mode: 0o777, Target: "a.txt"}), "281b7519852f7fa94c6e0592f3a0f4c99b8c42e7262c3f1a64368a8cd8a980dd"},
		"delete's entry":   {Fingerprint(&Entry{Kind: KindDelete, Path: "/a"}), ""},
		"quoted":           {string(appendQuoted(nil, "a\"\\\b\t\n\f\r\x01<>&\u2028é")), `"a\"\\\b\t\n\f\r\u0001<>&` + "\u2028é\""},
	} {
		if tt[0] != tt[1] {
			t.Errorf("%s: %s, want %s", name, tt[0], tt[1])
		}
	}
}

func TestSizeOf(t *testing.T) {
	for name, tt := range map[string]struct {
		sizes []int64
		want  int64 // -1 for an error
	}{
		"none":       {nil, 0},
		"one":        {[]int64{1}, 1},
		"full":       {[]int64{ChunkSize}, ChunkSize},
		"two":        {[]int64{ChunkSize, 7}, ChunkSize + 7},
		"short":      {[]int64{ChunkSize - 1, 7}, -1},
		"empty":      {[]int64{0}, -1},
		"empty last": {[]int64{ChunkSize, 0}, -1},
		"long":       {[]int64{ChunkSize + 1}, -1},
		"negative":   {[]int64{-1}, -1},
	} {
		var parts []Part
		for _, s := range tt.sizes {
			parts = append(parts, Part{Size: s})
		}
		got, err := sizeOf(parts)
		if tt.want < 0 && !errors.Is(err, ErrInvalid) || tt.want >= 0 && (got != tt.want || err != nil) {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}

func TestCode(t *testing.T) {
	for _, c := range codes {
		if got := Code(at("do", "/x", fmt.Errorf("wrapped: %w", c.err))); got != c.code {
			t.Errorf("%v: %s, want %s", c.err, got, c.code)
		}
	}
	if got := Code(&MissingError{}); got != "EUNKNOWN_HASH" {
		t.Error(got)
	}
	if got := Code(errors.New("other")) + Code(nil); got != "" {
		t.Error(got)
	}
}
