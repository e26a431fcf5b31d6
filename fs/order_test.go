package fs_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// Requests that are sent without waiting have the effect and the answers that they
// would have one after another.
func TestPipelined(t *testing.T) {
	conn, _ := serve(t, fs.Config{})
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	type request struct {
		method, params, want string
	}
	var requests []request
	add := func(method, params, want string) { requests = append(requests, request{method, params, want}) }
	for i := range 40 {
		data := b64(fmt.Sprint(i))
		add("fs/createDirectory", `{"path":"$U/d"}`, `{}`)
		add("fs/writeFile", `{"path":"$U/d/f","dataBase64":"`+data+`"}`, `{}`)
		for range 3 {
			add("fs/readFile", `{"path":"$U/d/f"}`, `{"dataBase64":"`+data+`"}`)
		}
		add("fs/open", `{"handleId":"r","path":"$U/d/f"}`, `{"handleId":"r"}`)
		add("fs/readBlock", `{"handleId":"r","offset":0,"len":9}`, `{"chunk":"`+data+`","eof":true}`)
		add("fs/close", `{"handleId":"r"}`, `{}`)
		add("fs/open", `{"handleId":"w","path":"$U/d/g","mode":"replace"}`, `{"handleId":"w"}`)
		add("fs/writeBlock", `{"handleId":"w","offset":1,"chunk":"eg=="}`, `{}`)
		add("fs/writeBlock", `{"handleId":"w","offset":0,"chunk":"`+b64("y")+`"}`, `{}`)
		add("fs/close", `{"handleId":"w"}`, `{}`)
		add("fs/readFile", `{"path":"$U/d/g"}`, `{"dataBase64":"`+b64("yz")+`"}`)
		add("fs/rename", `{"sourcePath":"$U/d","destinationPath":"$U/e"}`, `{}`)
		add("fs/readFile", `{"path":"$U/d/f"}`, "-32004")
		add("fs/canonicalize", `{"path":"$U/e/f"}`, `{"path":"$U/e/f"}`)
		add("fs/remove", `{"path":"$U/e"}`, `{}`)
		add("fs/readDirectory", `{"path":"$U"}`, `{"entries":[]}`)
	}
	uri := fileuri.Format(dir)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for i, r := range requests {
			msg := fmt.Sprintf(`{"id":%d,"method":%q,"params":%s}`, i, r.method, strings.ReplaceAll(r.params, "$U", uri))
			if err := conn.Write(t.Context(), []byte(msg)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range requests {
		msg, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Code int }
		}
		if err := json.Unmarshal(msg, &answer); err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(string(answer.Result), uri, "$U")
		if answer.Error != nil {
			got = fmt.Sprint(answer.Error.Code)
		}
		if r := requests[answer.ID]; got != r.want {
			t.Errorf("request %d, %s %s: %s, want %s", answer.ID, r.method, r.params, got, r.want)
		}
	}
}

// Large reads take turns with the memory that there is, and are refused when it would
// never be enough; small ones go on. All of it comes back.
func TestReadMemory(t *testing.T) {
	const size = 2 << 20
	budget := rpc.NewBudget(8 * size)
	other := budget.NewAccount(nil)
	c := newClientWith(t, fs.Config{}, budget.NewAccount(nil))
	c.put("large", strings.Repeat("x", size))
	c.put("huge", strings.Repeat("x", 4*size))
	c.put("small", "x")
	c.want("-32013 this needs 18 MiB of memory, and the server gives one client 12 MiB at most; *", "fs/readFile", object{"path": "$U/huge"})
	var wg sync.WaitGroup
	for range 8 { // each needs more than a quarter
		wg.Go(func() { c.want(`{"dataBase64":"eHh4*}`, "fs/readFile", object{"path": "$U/large"}) })
	}
	wg.Wait()

	if !other.TryTake(6 * size) {
		t.Fatal("another connection gets nothing")
	}
	wg.Go(func() { c.want(`{"dataBase64":"eHh4*}`, "fs/readFile", object{"path": "$U/large"}) }) // waits
	c.want(`{"dataBase64":"eA=="}`, "fs/readFile", object{"path": "$U/small"})
	other.Give(6 * size)
	wg.Wait()
	c.end()
	// An answer gives its memory back after it was written, which the client may see first.
	for deadline := time.Now().Add(time.Minute); budget.Used() != 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes have not come back", budget.Used())
		}
	}
}

// Locks exist while somebody wants them.
func TestLocksAreGivenUp(t *testing.T) {
	host := fs.NewHost()
	c := newClient(t, fs.Config{Host: host})
	c.put("d/f", "x")
	for method, params := range map[string]object{
		"fs/writeFile": {"path": "$U/g", "dataBase64": ""},
		"fs/copy":      {"sourcePath": "$U/d", "destinationPath": "$U/e", "recursive": true},
		"fs/rename":    {"sourcePath": "$U/d/f", "destinationPath": "$U/d/f"},
		"fs/chmod":     {"path": "$U/d/f", "mode": 0o600},
	} {
		c.want(`{}`, method, params)
	}
	c.want(notFound, "fs/rename", object{"sourcePath": "$U/none/f", "destinationPath": "$U/x"})
	c.want("-32602 *", "fs/writeFile", object{"path": "nonsense", "dataBase64": ""})
	c.want(`{"handleId":"h"}`, "fs/open", object{"handleId": "h", "path": "$U/h", "mode": "replace"})
	c.want(`{}`, "fs/close", object{"handleId": "h"})
	if n := host.Locks(); n != 0 {
		t.Errorf("%d locks are held", n)
	}
}
