package main

import "testing"

func TestRewrite(t *testing.T) {
	const head = "package p; import chaosPoint \"" + itself + "/point\"\n"
	for in, want := range map[string]string{
		"func f() { a(); c <- 1 }":                          "func f() { a(); chaosPoint.Here(); c <- 1 }",
		"func f() { if x := <-c; x { m.Lock() } }":          "func f() { chaosPoint.Here(); if x := <-c; x { chaosPoint.Here(); m.Lock() } }",
		"func f() { again: select { case <-c: close(d) } }": "func f() { chaosPoint.Here(); again: select { case <-c: chaosPoint.Here(); close(d) } }",
		"func f() { g(func() { m.Unlock() }) }":             "func f() { g(func() { chaosPoint.Here(); m.Unlock() }) }",
		"func f() { go g() }":                               "func f() { chaosPoint.Here(); go g() }",
	} {
		got, err := rewrite("p.go", []byte("package p\n"+in))
		if err != nil || string(got) != head+want {
			t.Errorf("%s\n\tgives %v\n%s", in, err, got)
		}
	}
	for _, same := range []string{"package p\nfunc f() { g() }", "package p\nvar c = 1"} {
		if got, err := rewrite("p.go", []byte(same)); err != nil || string(got) != same {
			t.Errorf("%s is changed: %v\n%s", same, err, got)
		}
	}
	if _, err := rewrite("p.go", []byte("no Go")); err == nil {
		t.Error("a file that is no Go has no error")
	}
	if run(nil) == nil {
		t.Error("no packages, no error")
	}
}
