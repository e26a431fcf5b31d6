package capnweb

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestBatch(t *testing.T) {
	for name, tt := range map[string]struct {
		in   []string
		want []string
	}{
		"empty":       {nil, nil},
		"empty lines": {[]string{"", ` `, ""}, nil},
		"pulled and not": {
			[]string{
				`["push",["pipeline",0,["add"],[1,2]]]`,
				`["push",["pipeline",0,["fail"],["EINVAL"]]]`,
				`["push",["pipeline",0,["secret"],[]]]`,
				`["pull",2]`, `["pull",1]`,
			},
			[]string{
				`["reject",2,["error","WorkspaceFsError","no EINVAL",null,{"code":"EINVAL","path":"/p"}]]`,
				`["resolve",1,3]`,
			},
		},
		"pipelined": {
			[]string{`["push",["pipeline",0,["add"],[1,2]]]`, `["push",["pipeline",0,["add"],[["pipeline",1],["pipeline",1]]]]`, `["pull",2]`},
			[]string{`["resolve",2,6]`},
		},
		"a stream is refused before it has effects": {
			[]string{`["push",["pipeline",0,["count"],[1,1]]]`, `["pull",1]`},
			[]string{`["reject",1,["error","Error","streams cannot be answered over an HTTP batch",null,{"code":"EPROTOCOL"}]]`},
		},
		"a stream that its type does not tell": {
			[]string{`["pipe"]`, `["push",["pipeline",0,["echo"],[["readable",1]]]]`, `["pull",2]`},
			[]string{`["reject",2,["error","Error","streams cannot be answered over an HTTP batch",null,{"code":"EPROTOCOL"}]]`},
		},
		"a stream that is complete": {
			[]string{
				`["pipe"]`, `["push",["pipeline",0,["sum"],[{"items":["readable",1]}]]]`, `["pull",2]`,
				`["stream",["pipeline",1,["write"],[4]]]`, `["stream",["pipeline",1,["close"],[]]]`,
			},
			[]string{`["resolve",2,4]`, `["resolve",3,["undefined"]]`, `["resolve",4,["undefined"]]`},
		},
		"a stream that is not": {
			[]string{`["pipe"]`, `["push",["pipeline",0,["sum"],[{"items":["readable",1]}]]]`, `["pull",2]`},
			[]string{`["reject",2,["error","Error","Batch RPC request ended.",null,{"code":"EPROTOCOL"}]]`},
		},
		"a callback": {
			[]string{`["push",["pipeline",0,["callBack"],[["export",-1],1]]]`, `["pull",1]`},
			[]string{`["reject",1,["error","Error","Batch RPC request ended.",null,{"code":"EPROTOCOL"}]]`, `["release",-1,1]`},
		},
		"a promise that is not resolved": {
			[]string{`["push",["pipeline",0,["echo"],[["promise",-1]]]]`, `["pull",1]`},
			[]string{`["reject",1,["error","Error","Batch RPC request ended.",null,{"code":"EPROTOCOL"}]]`},
		},
		"a promise that is": {
			[]string{`["push",["pipeline",0,["echo"],[["promise",-1]]]]`, `["pull",1]`, `["resolve",-1,5]`},
			[]string{`["release",-1,1]`, `["resolve",1,5]`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := ServeBatch(aMinute(t), []byte(strings.Join(tt.in, "\n")), Config{Main: newService().main})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.SplitSeq(string(answer), "\n") {
				if line != "" {
					got = append(got, line)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if strings.HasSuffix(string(answer), "\n") {
				t.Error("a newline at the end")
			}
		})
	}
}

// Calls that nobody pulled run all the same.
func TestBatchUnpulled(t *testing.T) {
	v := newService()
	if _, err := ServeBatch(aMinute(t), []byte(`["push",["pipeline",0,["wait"],["x"]]]`), Config{Main: v.main}); err != nil {
		t.Fatal(err)
	}
	if name := <-v.started; name != "x" {
		t.Error(name)
	}
}

func TestBatchGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	v := newService()
	go func() { <-v.started; cancel() }()
	_, err := ServeBatch(ctx, []byte("[\"push\",[\"pipeline\",0,[\"wait\"],[\"x\"]]]\n[\"pull\",1]"), Config{Main: v.main})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestBatchHandler(t *testing.T) {
	small := defaultBounds
	small.batchAnswer = 100_000
	srv := httptest.NewServer(BatchHandler(func(*http.Request) Config { return Config{Main: newService().main, bounds: small} }))
	defer srv.Close()
	post := func(body io.Reader) (int, string) {
		res, err := http.Post(srv.URL, "text/plain;charset=UTF-8", body)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, strings.TrimSpace(string(text))
	}
	for name, tt := range map[string]struct {
		body   string
		status int
		text   string
	}{
		"good":     {"[\"push\",1]\n[\"pull\",1]\n", 200, `["resolve",1,1]`},
		"empty":    {"", 200, ""},
		"bad line": {"[\"push\",1]\nx", 400, "malformed JSON at byte 0"},
		"bad id":   {`["pull",7]`, 400, "no such export ID: 7"},
		"abort":    {`["abort",["error","Error","enough"]]`, 400, "capnweb: aborted by the peer: enough"},
		"answer":   {"[\"push\",\"" + strings.Repeat("x", 100_000) + "\"]\n[\"pull\",1]", 500, "the batch failed"},
	} {
		if status, text := post(strings.NewReader(tt.body)); status != tt.status || text != tt.text {
			t.Errorf("%s: %d %q", name, status, text)
		}
	}
	large := io.LimitReader(endless{}, MaxBatchBytes+1)
	if status, _ := post(large); status != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %d", status)
	}
	res, err := http.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %s, Allow %q", res.Status, res.Header.Get("Allow"))
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestBatchClient(t *testing.T) {
	srv := httptest.NewServer(BatchHandler(func(r *http.Request) Config {
		if r.Header.Get("Authorization") != "Bearer x" {
			return Config{}
		}
		return Config{Main: newService().main}
	}))
	defer srv.Close()
	ctx := aMinute(t)
	b := NewBatch(srv.URL, nil, http.Header{"Authorization": {"Bearer x"}})
	defer b.Close()
	sum := b.Main().Start(ctx, "add", 1, 2)
	twice := b.Main().Start(ctx, "add", sum, sum)
	bad := b.Main().Start(ctx, "fail", "ENOENT")
	if err := b.Send(ctx); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := twice.Await(ctx, &n); err != nil || n != 6 {
		t.Errorf("%d, %v", n, err)
	}
	if err := bad.Await(ctx, nil); Code(err) != "ENOENT" {
		t.Error(err)
	}

	for name, url := range map[string]string{"refused": "http://127.0.0.1:1/", "no batch": srv.URL + "/%zz"} {
		b := NewBatch(url, nil, nil)
		p := b.Main().Start(ctx, "add", 1, 2)
		if err := b.Send(ctx); err == nil {
			t.Errorf("%s: sent", name)
		}
		b.Close()
		if err := p.Await(ctx, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What nobody can read or answer any more does not keep a batch waiting.
func TestSM8NoBatchWaitsForEver(t *testing.T) {
	const ended = `["error","Error","Batch RPC request ended.",null,{"code":"EPROTOCOL"}]`
	for name, tt := range map[string]struct{ in, want []string }{
		"a pipe that nobody reads": {
			[]string{`["pipe"]`, `["stream",["pipeline",1,["write"],["a"]]]`, `["stream",["pipeline",1,["close"],[]]]`},
			[]string{`["reject",2,` + ended + `]`, `["reject",3,` + ended + `]`},
		},
		"one that is not closed": {
			[]string{`["pipe"]`, `["stream",["pipeline",1,["write"],["a"]]]`},
			[]string{`["reject",2,` + ended + `]`},
		},
		"one of two": {
			[]string{
				`["pipe"]`, `["pipe"]`, `["push",["pipeline",0,["sum"],[{"items":["readable",1]}]]]`, `["pull",3]`,
				`["stream",["pipeline",1,["write"],[4]]]`, `["stream",["pipeline",2,["write"],[5]]]`, `["stream",["pipeline",1,["close"],[]]]`,
			},
			[]string{`["resolve",3,4]`, `["resolve",4,["undefined"]]`, `["reject",5,` + ended + `]`, `["resolve",6,["undefined"]]`},
		},
		"one in a result that is not pulled": {
			[]string{`["pipe"]`, `["push",["pipeline",0,["echo"],[["readable",1]]]]`, `["stream",["pipeline",1,["write"],["a"]]]`},
			[]string{`["reject",3,` + ended + `]`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := ServeBatch(aMinute(t), []byte(strings.Join(tt.in, "\n")), Config{Main: newService().main})
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Split(string(answer), "\n")
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// A call that does not return is cancelled in time.
func TestSM8BatchHasATimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := ServeBatch(t.Context(), []byte(`["push",["pipeline",0,["wait"],[]]]`+"\n"+`["pull",1]`), Config{Main: newService().main})
		if !errors.Is(err, errBatchSlow) || time.Since(began) != BatchTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
