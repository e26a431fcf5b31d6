package fs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs"
)

// next is the next notification, as "method params"; it fails the test when there is
// none for long.
func (c *client) next() string {
	c.t.Helper()
	select {
	case n := <-c.notes:
		return n.method + " " + strings.ReplaceAll(n.params, c.uri, "$U")
	case <-time.After(time.Minute):
		c.t.Fatal("no notification")
		return ""
	}
}

// quiet fails the test if a notification arrived before the answer to a request that
// is sent now.
func (c *client) quiet() {
	c.t.Helper()
	c.call("fs/getMetadata", object{"path": "$U"})
	select {
	case n := <-c.notes:
		c.t.Errorf("told %s %s", n.method, n.params)
	default:
	}
}

// changes takes notifications of the watch id until all of want were told, as
// "kind path".
func (c *client) changes(id string, want ...string) {
	c.t.Helper()
	for len(want) > 0 {
		text, ok := strings.CutPrefix(c.next(), "fs/changed ")
		var p struct {
			WatchID  string
			Changes  []struct{ Path, Kind string }
			Overflow bool
		}
		if err := json.Unmarshal([]byte(text), &p); !ok || err != nil || p.WatchID != id || p.Overflow {
			c.t.Fatalf("told %s, waiting for %v", text, want)
		}
		for _, change := range p.Changes {
			told := change.Kind + " " + change.Path
			want = slices.DeleteFunc(want, func(w string) bool { return w == told })
			if strings.Contains(change.Path, ".wsd-") {
				c.t.Errorf("told of a temporary file: %s", told)
			}
		}
	}
}

func TestWatch(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.mkdir("w/a/b")
	c.want(`{"directories":3}`, "fs/watch", object{"watchId": "one", "path": "$U/w", "exclude": []string{"*.log", "skip"}})
	c.put("w/a/b/x.log", "")
	c.put("w/skip/x", "")
	c.want(`{}`, "fs/writeFile", object{"path": "$U/w/a/f%20f", "dataBase64": ""})
	c.changes("one", "created $U/w/a/f%20f")
	c.mkdir("w/new/deep")
	c.put("w/new/deep/g", "")
	c.changes("one", "created $U/w/new", "created $U/w/new/deep", "created $U/w/new/deep/g")
	c.put("w/a/f f", "more")
	c.changes("one", "modified $U/w/a/f%20f")
	c.want(`{}`, "fs/remove", object{"path": "$U/w/new"})
	c.changes("one", "removed $U/w/new/deep/g", "removed $U/w/new/deep", "removed $U/w/new")

	c.want("-32600 watch `one` already exists", "fs/watch", object{"watchId": "one", "path": "$U"})
	c.want(`{"directories":1}`, "fs/watch", object{"watchId": "two", "path": "$U/w", "recursive": false})
	c.want(`{}`, "fs/unwatch", object{"watchId": "one"})
	c.put("w/a/unseen", "")
	c.put("w/seen", "")
	c.changes("two", "created $U/w/seen")
	c.want(`{}`, "fs/unwatch", object{"watchId": "two"})
	c.want(`{}`, "fs/unwatch", object{"watchId": "two"})
	c.put("w/after", "")
	c.quiet()
	c.want(`{"directories":*}`, "fs/watch", object{"watchId": "one", "path": "$U/w"}) // the id is free again

	c.want(notFound, "fs/watch", object{"watchId": "x", "path": "$U/none"})
	c.want("-32602 exclude: *", "fs/watch", object{"watchId": "x", "path": "$U", "exclude": []string{"{"}})
	c.want("-32600 watch ID must not exceed 128 bytes", "fs/watch", object{"watchId": strings.Repeat("x", 129), "path": "$U"})
}

// A change made right after the answer is told.
func TestWatchAnswersWhenItWatches(t *testing.T) {
	c := newClient(t, fs.Config{})
	for i := range 10 {
		id, name := fmt.Sprint(i), fmt.Sprintf("f%d", i)
		c.want(`{"directories":1}`, "fs/watch", object{"watchId": id, "path": "$U"})
		c.put(name, "")
		c.changes(id, "created $U/"+name)
		c.want(`{}`, "fs/unwatch", object{"watchId": id})
	}
}

func TestWatchLimits(t *testing.T) {
	c := newClient(t, fs.Config{})
	for i := range 64 {
		c.want(`{"directories":1}`, "fs/watch", object{"watchId": fmt.Sprint(i), "path": "$U"})
	}
	c.want("-32600 at most 64 watches may be set per connection", "fs/watch", object{"watchId": "more", "path": "$U"})
	c.want(`{}`, "fs/unwatch", object{"watchId": "3"})
	c.want(`{"directories":1}`, "fs/watch", object{"watchId": "more", "path": "$U"})
}

// The end of the connection ends its watches, and with the last one the system's.
func TestWatchEndsWithConnection(t *testing.T) {
	host := fs.NewHost()
	before := openDescriptors(t)
	for range 5 {
		c := newClient(t, fs.Config{Host: host})
		c.want(`{"directories":1}`, "fs/watch", object{"watchId": "w", "path": "$U"})
		c.want(`{"watching":true}`, "fs/watchMissing", object{"watchId": 1, "missing": []string{"$U/none"}})
		c.put("f", "")
		c.end()
	}
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestWatchMissing(t *testing.T) {
	id := 0
	set := func(c *client, want bool, present string, missing ...string) {
		t.Helper()
		id++
		params := object{"watchId": id, "missing": missing}
		if present != "" {
			params["present"] = present
		}
		c.want(fmt.Sprintf(`{"watching":%v}`, want), "fs/watchMissing", params)
	}
	told := func(c *client) {
		t.Helper()
		if got, want := c.next(), fmt.Sprintf(`fs/missingChanged {"watchId":%d}`, id); got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	}
	c := newClient(t, fs.Config{})
	c.put("a/f", "")
	c.link("gone", "dangling")
	many := make([]string, 1025)
	for i := range many {
		many[i] = fmt.Sprintf("$U/no%d", i)
	}
	for _, missing := range [][]string{{}, {"$U/a"}, {"$U/x", "$U/a/f"}, {"$U/dangling"}, {"$U/dangling/x"}, {"$U/a/f/x"}, many, {"file:///"}} {
		set(c, false, "", missing...)
	}
	set(c, false, "$U/zz", "$U/x")
	set(c, true, "", many[1:]...)
	c.want("-32602 *", "fs/watchMissing", object{"watchId": 1, "missing": []string{"http://x"}})

	set(c, true, "", "$U/x", "$U/y/z")
	c.put("other", "")
	c.quiet()
	c.put("x", "")
	told(c)
	c.mkdir("y") // it was told, once
	c.quiet()

	set(c, true, "$U/a/f", "$U/p/q/r")
	c.mkdir("p/q") // on the way
	told(c)
	set(c, true, "", "$U/p/q/r")
	if err := os.Rename(c.path("x"), c.path("p/q/r")); err != nil { // by a rename
		t.Fatal(err)
	}
	told(c)
	set(c, true, "$U/a/f", "$U/k")
	c.want(`{}`, "fs/remove", object{"path": "$U/a/f"}) // what was to stay has gone
	told(c)
	set(c, true, "$U/a", "$U/a/k/m")
	c.want(`{}`, "fs/remove", object{"path": "$U/a"})
	told(c)

	set(c, true, "", "$U/first")
	set(c, true, "", "$U/second") // replaces it
	c.put("first", "")
	c.quiet()
	c.put("second", "")
	told(c)
	c.quiet()
}
