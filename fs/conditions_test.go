package fs_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/fs"
)

func hash(data string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(data))) }

func failed(text, current string) string {
	if current != "null" {
		current = `"` + current + `"`
	}
	return "-32011 " + text + ` {"kind":"preconditionFailed","currentHash":` + current + `}`
}

const (
	mismatch = "the file is not the one that ifMatch names"
	there    = "the file exists"
)

func TestConditionalWrites(t *testing.T) {
	c := newClient(t, fs.Config{})
	write := func(want, name, data string, more object) {
		t.Helper()
		params := object{"path": "$U/" + name, "dataBase64": b64(data), "includeHash": true}
		for k, v := range more {
			params[k] = v
		}
		c.want(want, "fs/writeFile", params)
	}
	ok := func(data string) string { return `{"hash":"` + hash(data) + `"}` }
	write(ok("one"), "f", "one", object{"ifNoneMatch": "*"})
	write(failed(there, hash("one")), "f", "two", object{"ifNoneMatch": "*"})
	write(failed(mismatch, hash("one")), "f", "two", object{"ifMatch": hash("zero")})
	write(ok("two"), "f", "two", object{"ifMatch": hash("one")})
	write(failed(mismatch, "null"), "missing", "x", object{"ifMatch": hash("one")})
	c.link("f", "l")
	write(ok("three"), "l", "three", object{"ifMatch": hash("two")})
	write(failed(there, hash("three")), "l", "x", object{"ifNoneMatch": "*"})
	write("-32602 ifMatch and ifNoneMatch contradict each other", "f", "x", object{"ifMatch": hash("three"), "ifNoneMatch": "*"})
	write(`-32602 ifNoneMatch must be "*"`, "f", "x", object{"ifNoneMatch": hash("three")})
	for _, bad := range []string{"", "*", "sha256:", "sha256:12", strings.ToUpper(hash("x")), hash("x") + "0", "md5:" + hash("x")[7:]} {
		write("-32602 ifMatch must be *", "f", "x", object{"ifMatch": bad})
	}
	write(failed(there, "null"), "", "x", object{"path": "file:///dev/null", "ifNoneMatch": "*"})
	c.want(`{"dataBase64":"`+b64("three")+`","hash":"`+hash("three")+`"}`, "fs/readFile", object{"path": "$U/f", "includeHash": true})
	c.wantFiles("", "f l->f")
}

func TestConditionalStreams(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.put("f", "one")
	stream := func(want, name, data string, condition object) {
		t.Helper()
		params := object{"handleId": "h", "path": "$U/" + name, "mode": "replace"}
		for k, v := range condition {
			params[k] = v
		}
		c.want(`{"handleId":"h"}`, "fs/open", params)
		c.want(`{}`, "fs/writeBlock", object{"handleId": "h", "offset": 0, "chunk": b64(data)})
		c.want(want, "fs/close", object{"handleId": "h"})
	}
	stream(failed(mismatch, hash("one")), "f", "two", object{"ifMatch": hash("zero")})
	stream(`{}`, "f", "two", object{"ifMatch": hash("one")})
	stream(failed(there, hash("two")), "f", "three", object{"ifNoneMatch": "*"})
	stream(`{}`, "new", "x", object{"ifNoneMatch": "*"})
	// It is what the file is at the end that counts.
	c.want(`{"handleId":"h"}`, "fs/open", object{"handleId": "h", "path": "$U/f", "mode": "replace", "ifMatch": hash("two")})
	c.want(`{}`, "fs/writeBlock", object{"handleId": "h", "offset": 0, "chunk": b64("three")})
	c.put("f", "meanwhile")
	c.want(failed(mismatch, hash("meanwhile")), "fs/close", object{"handleId": "h"})
	c.want(`{"handleId":"h"}`, "fs/open", object{"handleId": "h", "path": "$U/late", "mode": "replace", "ifNoneMatch": "*"})
	c.put("late", "first")
	c.want(failed(there, hash("first")), "fs/close", object{"handleId": "h"})
	if c.content("f") != "meanwhile" || c.content("late") != "first" || c.content("new") != "x" {
		t.Errorf("f %q, late %q, new %q", c.content("f"), c.content("late"), c.content("new"))
	}
	c.wantFiles("", "f late new")
	c.want("-32602 *", "fs/open", object{"handleId": "h", "path": "$U/f", "mode": "replace", "ifMatch": "x"})
	c.wantFiles("", "f late new")
}

// Many who each read, add one and write if nobody else did lose no addition, whatever
// connection and path they use.
func TestConditionalWritesDoNotLoseUpdates(t *testing.T) {
	host := fs.NewHost()
	main := newClient(t, fs.Config{Host: host})
	main.put("n", "0")
	main.link("n", "l")
	const workers, each = 4, 8
	var wg sync.WaitGroup
	for i := range workers {
		c := newClient(t, fs.Config{Host: host})
		c.dir, c.uri = main.dir, main.uri
		wg.Go(func() {
			name := []string{"$U/n", "$U/l"}[i%2]
			for added := 0; added < each; {
				r := result[struct {
					DataBase64 []byte
					Hash       string
				}](c, "fs/readFile", object{"path": name, "includeHash": true})
				var n int
				if _, err := fmt.Sscan(string(r.DataBase64), &n); err != nil {
					t.Error(err)
					return
				}
				next := b64(fmt.Sprint(n + 1))
				var got string
				if added%2 == 0 {
					got = c.call("fs/writeFile", object{"path": name, "dataBase64": next, "ifMatch": r.Hash})
				} else {
					c.call("fs/open", object{"handleId": "h", "path": name, "mode": "replace", "ifMatch": r.Hash})
					c.call("fs/writeBlock", object{"handleId": "h", "offset": 0, "chunk": next})
					got = c.call("fs/close", object{"handleId": "h"})
				}
				switch {
				case got == `{}`:
					added++
				case !strings.HasPrefix(got, "-32011 "):
					t.Errorf("write: %s", got)
					return
				}
			}
		})
	}
	wg.Wait()
	if got, want := main.content("n"), fmt.Sprint(workers*each); got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
	main.wantFiles("", "l->n n")
}

// Of many who create a file if there is none, one does.
func TestOneCreates(t *testing.T) {
	host := fs.NewHost()
	main := newClient(t, fs.Config{Host: host})
	for round := range 10 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		created := 0
		for range 4 {
			c := newClient(t, fs.Config{Host: host})
			c.dir, c.uri = main.dir, main.uri
			wg.Go(func() {
				got := c.call("fs/writeFile", object{"path": fmt.Sprintf("$U/f%d", round), "dataBase64": "", "ifNoneMatch": "*"})
				if got == `{}` {
					mu.Lock()
					created++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if created != 1 {
			t.Errorf("round %d: %d of 4 created the file", round, created)
		}
	}
}

// A file under conditional writes is a register with compare and set.
func TestConditionModel(t *testing.T) {
	c := newClient(t, fs.Config{})
	type op struct{ kind, data, expect string }
	values := rapid.SampledFrom([]string{"", "a", "b", "longer content"})
	plans := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) op {
		return op{
			rapid.SampledFrom([]string{"write", "match", "create", "remove", "rename"}).Draw(rt, "kind"),
			values.Draw(rt, "data"), values.Draw(rt, "expect"),
		}
	}), 1, 20)
	rapid.Check(t, func(rt *rapid.T) {
		plan := plans.Draw(rt, "plan")
		c.call("fs/remove", object{"path": "$U/f"})
		var model *string
		current := func() string {
			if model == nil {
				return "null"
			}
			return hash(*model)
		}
		for i, o := range plan {
			params := object{"path": "$U/f", "dataBase64": b64(o.data)}
			method, want := "fs/writeFile", `{}`
			next := &o.data
			switch o.kind {
			case "match":
				params["ifMatch"] = hash(o.expect)
				if current() != hash(o.expect) {
					want, next = failed(mismatch, current()), model
				}
			case "create":
				params["ifNoneMatch"] = "*"
				if model != nil {
					want, next = failed(there, current()), model
				}
			case "remove":
				method, params, next = "fs/remove", object{"path": "$U/f"}, nil
			case "rename":
				c.put("g", o.data)
				method, params = "fs/rename", object{"sourcePath": "$U/g", "destinationPath": "$U/f", "overwrite": false}
				if model != nil {
					want, next = exists, model
				}
			}
			if got := c.call(method, params); got != want {
				rt.Fatalf("step %d, %s: %s, want %s", i, o.kind, got, want)
			}
			model = next
			if got := c.content("f"); model != nil && got != *model || model == nil && !strings.HasPrefix(got, "error") {
				rt.Fatalf("step %d, %s: content %q", i, o.kind, got)
			}
		}
	})
}
