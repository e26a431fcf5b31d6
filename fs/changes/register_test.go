package changes_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/rpctest"
	"github.com/wsd-dev/wsd/protocol/rpc/stream"
)

// talk begins a conversation with a peer over the wire.
func talk(t testing.TB, peer changes.Peer) *rpctest.Conversation {
	t.Helper()
	table := rpc.NewTable()
	stream.Register(table)
	changes.Register(table)
	return rpctest.Serve(t, table, func(n rpc.Notifier) []rpc.Service {
		streams := stream.New(n, stream.Config{})
		return []rpc.Service{streams, changes.NewService(peer, streams)}
	})
}

// toldPeer answers what it is told, and says what it was asked.
type toldPeer struct {
	changes.Peer
	asked  []any
	err    error
	closed chan error // takes why streams were closed
}

func (p *toldPeer) ask(of ...any) error {
	p.asked = append(p.asked, fmt.Sprint(of...))
	return p.err
}

func (p *toldPeer) Watermarks(_ context.Context, settle bool) (changes.Watermarks, error) {
	return changes.Watermarks{CurrentRev: 9, PushRev: 3, Fetch: tree.AtPath(5, "/é")}, p.ask("watermarks ", settle)
}

func (p *toldPeer) ReadEntry(_ context.Context, path string) (*tree.Entry, error) {
	if path == "/none" {
		return nil, p.ask("read ", path)
	}
	return &tree.Entry{Kind: tree.KindDir, Rev: 7, Path: path, Mode: 0o755, MTime: time.UnixMilli(1795814700123)}, p.ask("read ", path)
}

func (p *toldPeer) FetchChanges(_ context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	through := "now"
	if q.Through != nil {
		through = fmt.Sprint(*q.Through)
	}
	if err := p.ask("fetch ", q.After, " ", through, " ", q.Ignore == nil, q.Ignore); err != nil {
		return nil, err
	}
	hash := tree.Sum([]byte("hello"))
	return &changes.Fetch{Current: tree.At(12), AppliedPush: tree.AtPath(5, ""), Entries: p.entries(
		tree.Entry{Kind: tree.KindFile, Rev: 9, Path: "/a", Mode: 0o644, MTime: time.UnixMilli(2), Size: 5, Parts: []tree.Part{{Hash: hash, Size: 5}}},
		tree.Entry{Kind: tree.KindFile, Rev: 10, Path: "/empty", Mode: 0o600, MTime: time.UnixMilli(3)},
		tree.Entry{Kind: tree.KindSymlink, Rev: 11, Path: "/l", Mode: 0o777, MTime: time.UnixMilli(4), Target: "a"},
		tree.Entry{Kind: tree.KindDelete, Rev: 12, Path: "/old", Prior: strings.Repeat("ab", 32)},
	)}, nil
}

func (p *toldPeer) entries(list ...tree.Entry) changes.Stream[tree.Entry] {
	return changes.FromFunc(func(context.Context) (e tree.Entry, err error) {
		if len(list) == 0 {
			return e, io.EOF
		}
		e, list = list[0], list[1:]
		return e, nil
	}, func(err error) { p.closed <- err })
}

func (p *toldPeer) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (r changes.PushResult, err error) {
	cursor := "none"
	if in.Cursor != nil {
		cursor = fmt.Sprint(*in.Cursor)
	}
	if err := p.ask("push ", in.SenderRev, " ", cursor); err != nil {
		return r, err
	}
	for {
		e, err := entries.Next(ctx)
		if errors.Is(err, io.EOF) {
			return changes.PushResult{Rev: 20, Before: 18, Applied: 2, AppliedPushCursor: tree.At(in.SenderRev)}, nil
		}
		if err != nil {
			entries.Close(err)
			return r, err
		}
		_ = p.ask(e.Kind, " ", e.Path)
	}
}

// The messages of sync/* as they are on the wire.
func TestWireForms(t *testing.T) {
	hash := tree.Sum([]byte("hello")).String()
	for name, tt := range map[string]struct {
		say   []string
		hear  []string
		asked string
	}{
		"watermarks": {
			[]string{`{"id":1,"method":"sync/watermarks","params":{}}`},
			[]string{`{"id":1,"result":{"currentRev":9,"pushRev":3,"fetchCursor":{"rev":5,"path":"/é"}}}`},
			"watermarks false",
		},
		"watermarks, settled": {
			[]string{`{"id":1,"method":"sync/watermarks","params":{"settle":true}}`},
			[]string{`{"id":1,"result":{"currentRev":9,"pushRev":3,"fetchCursor":{"rev":5,"path":"/é"}}}`},
			"watermarks true",
		},
		"an entry": {
			[]string{`{"id":1,"method":"sync/readEntry","params":{"path":"/d"}}`},
			[]string{`{"id":1,"result":{"entry":{"kind":"dir","rev":7,"path":"/d","mode":493,"mtime":1795814700123}}}`},
			"read /d",
		},
		"no entry": {
			[]string{`{"id":1,"method":"sync/readEntry","params":{"path":"/none"}}`},
			[]string{`{"id":1,"result":{"entry":null}}`},
			"read /none",
		},
		"changes": {
			[]string{`{"id":1,"method":"sync/fetchChanges","params":{}}`},
			[]string{
				`{"id":1,"result":{"currentCursor":{"rev":12,"path":null},"appliedPushCursor":{"rev":5,"path":""},"stream":{"streamId":"1"}}}`,
				`{"method":"stream/items","params":{"streamId":"1","items":[{"kind":"file","rev":9,"path":"/a","mode":420,"mtime":2,"size":5,"chunks":[{"hash":"` + hash + `","size":5}]},` +
					`{"kind":"file","rev":10,"path":"/empty","mode":384,"mtime":3,"size":0,"chunks":[]},` +
					`{"kind":"symlink","rev":11,"path":"/l","mode":511,"mtime":4,"target":"a"},` +
					`{"kind":"delete","rev":12,"path":"/old","prior":"` + strings.Repeat("ab", 32) + `"}],"bytes":436}}`,
				`{"method":"stream/end","params":{"streamId":"1"}}`,
			},
			"fetch {0 false } now true []",
		},
		"some changes, one at a time": {
			[]string{`{"id":1,"method":"sync/fetchChanges","params":{"after":{"rev":3,"path":"/x"},"through":{"rev":9},"ignore":["a","b"],"window":1}}`},
			[]string{
				`{"id":1,"result":{"currentCursor":{"rev":12,"path":null},"appliedPushCursor":{"rev":5,"path":""},"stream":{"streamId":"1"}}}`,
				`{"method":"stream/items","params":{"streamId":"1","items":[{"kind":"file","rev":9,"path":"/a","mode":420,"mtime":2,"size":5,"chunks":[{"hash":"` + hash + `","size":5}]}],"bytes":163}}`,
			},
			"fetch {3 true /x} {9 false } false [a b]",
		},
		"nothing ignored": {
			[]string{`{"id":1,"method":"sync/fetchChanges","params":{"ignore":[],"window":1}}`},
			[]string{
				`{"id":1,"result":{"currentCursor":{"rev":12,"path":null},"appliedPushCursor":{"rev":5,"path":""},"stream":{"streamId":"1"}}}`,
				`{"method":"stream/items","params":{"streamId":"1","items":[{"kind":"file","rev":9,"path":"/a","mode":420,"mtime":2,"size":5,"chunks":[{"hash":"` + hash + `","size":5}]}],"bytes":163}}`,
			},
			"fetch {0 false } now false []",
		},
		"a push": {
			[]string{
				`{"id":1,"method":"sync/push","params":{"senderRev":7,"senderCursor":{"rev":6,"path":"/a"},"changes":{"streamId":"mine"}}}`,
				`{"method":"stream/items","params":{"streamId":"mine","items":[{"kind":"dir","rev":5,"path":"/d","mode":493,"mtime":1.5}]}}`,
				`{"method":"stream/items","params":{"streamId":"mine","items":[{"kind":"delete","rev":6,"path":"/a","mode":null,"more":{}}]}}`,
				`{"method":"stream/end","params":{"streamId":"mine"}}`,
			},
			[]string{
				`{"method":"stream/credit","params":{"streamId":"mine","bytes":1048576}}`,
				`{"id":1,"result":{"rev":20,"applied":2,"appliedPushCursor":{"rev":7,"path":null},"before":18}}`,
			},
			"push 7 {6 true /a} dir /d delete /a",
		},
		"a short push": {
			[]string{`{"id":1,"method":"sync/push","params":{"senderRev":0,"changes":{"items":[{"kind":"delete","rev":6,"path":"/a"}]}}}`},
			[]string{`{"id":1,"result":{"rev":20,"applied":2,"appliedPushCursor":{"rev":0,"path":null},"before":18}}`},
			"push 0 none delete /a",
		},
		"a push that its sender ends": {
			[]string{
				`{"id":1,"method":"sync/push","params":{"senderRev":7,"changes":{"streamId":"mine"}}}`,
				`{"method":"stream/end","params":{"streamId":"mine","error":{"code":"EIO","message":"cannot read it","path":"/w/x"}}}`,
			},
			[]string{
				`{"method":"stream/credit","params":{"streamId":"mine","bytes":1048576}}`,
				`{"error":{"code":-32012,"message":"cannot read it","data":{"code":"EIO","path":"/w/x"}},"id":1}`,
			},
			"push 7 none",
		},
		"a push of nonsense": {
			[]string{
				`{"id":1,"method":"sync/push","params":{"senderRev":7,"changes":{"streamId":"mine"}}}`,
				`{"method":"stream/items","params":{"streamId":"mine","items":[{"kind":"dir","rev":5,"path":"d/../e","mode":493,"mtime":1}]}}`,
			},
			[]string{
				`{"method":"stream/credit","params":{"streamId":"mine","bytes":1048576}}`,
				`{"method":"stream/cancel","params":{"streamId":"mine","error":{"code":"EINVAL","message":"\"d/../e\": invalid argument: not an absolute, canonical path","path":"d/../e"}}}`,
				`{"error":{"code":-32012,"message":"\"d/../e\": invalid argument: not an absolute, canonical path","data":{"code":"EINVAL","path":"d/../e"}},"id":1}`,
			},
			"push 7 none",
		},
		"a push of something else": {
			[]string{`{"id":1,"method":"sync/push","params":{"senderRev":7,"changes":{"items":[5]}}}`},
			[]string{"{\"error\":{\"code\":-32012,\"message\":\"invalid type: number `5`, expected struct ChangeEntry\",\"data\":{\"code\":\"EINVAL\"}},\"id\":1}"},
			"push 7 none",
		},
		"no changes": {
			[]string{`{"id":1,"method":"sync/push","params":{"senderRev":7}}`},
			[]string{"{\"error\":{\"code\":-32602,\"message\":\"sync/push: missing field `changes`\"},\"id\":1}"},
			"",
		},
		"a cursor that is none": {
			[]string{`{"id":1,"method":"sync/fetchChanges","params":{"after":{"rev":-1}}}`, `{"id":2,"method":"sync/push","params":{"senderRev":7,"senderCursor":{"rev":9007199254740992},"changes":{"items":[]}}}`},
			[]string{
				`{"error":{"code":-32012,"message":"invalid argument: a revision is a number from 0 to 9007199254740991","data":{"code":"EINVAL"}},"id":1}`,
				`{"error":{"code":-32012,"message":"invalid argument: a revision is a number from 0 to 9007199254740991","data":{"code":"EINVAL"}},"id":2}`,
			},
			"",
		},
		"hashes that are none": {
			[]string{`{"id":1,"method":"sync/hasObjects","params":{"hashes":["` + hash[1:] + `"]}}`, `{"id":2,"method":"sync/fetchObjects","params":{"hashes":["` + strings.Repeat("zz", 32) + `"]}}`},
			[]string{
				`{"error":{"code":-32012,"message":"invalid argument: a hash has 64 hexadecimal digits","data":{"code":"EINVAL"}},"id":1}`,
				`{"error":{"code":-32012,"message":"invalid argument: a hash has 64 hexadecimal digits","data":{"code":"EINVAL"}},"id":2}`,
			},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				peer := &toldPeer{closed: make(chan error, 1)}
				c := talk(t, peer)
				var heard []string
				for i, msg := range tt.say {
					c.Say(msg)
					synctest.Wait()
					if i == 0 && len(tt.say) > 1 && len(heard) < len(tt.hear) {
						heard = append(heard, c.Hear())
					}
				}
				for len(heard) < len(tt.hear) {
					heard = append(heard, c.Hear())
				}
				for i, want := range tt.hear {
					if heard[i] != want {
						t.Errorf("got  %s\nwant %s", heard[i], want)
					}
				}
				if got := strings.TrimSpace(fmt.Sprintln(peer.asked...)); got != tt.asked {
					t.Errorf("asked %q, want %q", got, tt.asked)
				}
			})
		})
	}
}

// Errors of a peer are told with their codes, and others without.
func TestWireErrors(t *testing.T) {
	long := "/" + strings.Repeat("é", 4000)
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"of the tree":    {&iofs.PathError{Op: "apply", Path: "/a", Err: tree.ErrIsDirectory}, `{"code":-32012,"message":"apply /a: is a directory","data":{"code":"EISDIR","path":"/a"}}`},
		"missing":        {&tree.MissingError{}, `{"code":-32012,"message":"chunk ` + strings.Repeat("0", 64) + ` is not held","data":{"code":"EUNKNOWN_HASH"}}`},
		"of a pack":      {&changes.Error{Code: changes.CodePack, Err: errors.New("no footer")}, `{"code":-32012,"message":"no footer","data":{"code":"EPACK_PROTOCOL"}}`},
		"without a code": {errors.New("the disk is on fire"), `{"code":-32603,"message":"the disk is on fire"}`},
		"a long path":    {&changes.Error{Code: "EINVAL", Path: long, Err: errors.New("x")}, `{"code":-32012,"message":"x","data":{"code":"EINVAL","path":"/` + strings.Repeat("é", 2047) + "\ufffd" + `"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			c := talk(t, &toldPeer{err: tt.err})
			c.Say(`{"id":1,"method":"sync/watermarks","params":{}}`)
			c.Want(`{"error":` + tt.want + `,"id":1}`)
		})
	}
}

// A stream that is given up is closed, as is one whose connection ends.
func TestWireStreamsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &toldPeer{closed: make(chan error, 1)}
		c := talk(t, peer)
		open := func() {
			c.Say(`{"id":1,"method":"sync/fetchChanges","params":{"window":1}}`)
			c.Hear()
			c.Hear()
		}
		open()
		c.Say(`{"method":"stream/cancel","params":{"streamId":"1"}}`)
		if err := <-peer.closed; !errors.Is(err, stream.ErrCancelled) {
			t.Errorf("cancelled: %v", err)
		}
		open()
		c.End()
		if err := <-peer.closed; !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("the connection ends: %v", err)
		}
	})
}

// C042: (d) a push with content that is not held fails as a whole, over the wire too, and
// works once it is.
func TestC042PushFailsAsAWhole(t *testing.T) {
	e := newEnd(t)
	c := talk(t, e.Server)
	ok, bad := []byte("ok"), []byte("bad")
	entry := func(path string, content []byte) string {
		return fmt.Sprintf(`{"kind":"file","rev":1,"path":%q,"mode":420,"mtime":1,"size":%d,"chunks":[{"hash":"%s","size":%d}]}`, path, len(content), tree.Sum(content), len(content))
	}
	push := `,"method":"sync/push","params":{"senderRev":2,"changes":{"items":[` + entry("/w/ok", ok) + "," + entry("/w/bad", bad) + `]}}}`
	objects := func(content []byte) string {
		return fmt.Sprintf(`,"method":"sync/pushObjects","params":{"objects":{"items":[{"hash":"%s","bytes":"%s"}]}}}`, tree.Sum(content), base64.StdEncoding.EncodeToString(content))
	}
	c.Say(`{"id":1` + objects(ok))
	c.Want(`{"id":1,"result":{}}`)
	before, err := e.Watermarks(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	c.Say(`{"id":2` + push)
	if got := c.Hear(); !strings.Contains(got, `"data":{"code":"EUNKNOWN_HASH","path":"/w/bad"}`) {
		t.Error(got)
	}
	if after, err := e.Watermarks(t.Context(), false); !reflect.DeepEqual(after, before) || err != nil {
		t.Errorf("after the failure %+v, %v; before %+v", after, err, before)
	}
	c.Say(`{"id":3,"method":"sync/readEntry","params":{"path":"/w/ok"}}`)
	c.Want(`{"id":3,"result":{"entry":null}}`)
	c.Say(`{"id":4` + objects(bad))
	c.Want(`{"id":4,"result":{}}`)
	c.Say(`{"id":5` + push)
	if got := c.Hear(); !strings.Contains(got, `"applied":2,"appliedPushCursor":{"rev":2,"path":null}`) {
		t.Error(got)
	}
	c.Say(`{"id":6,"method":"sync/hasObjects","params":{"hashes":["` + tree.Sum(bad).String() + `","` + strings.Repeat("0", 64) + `"]}}`)
	c.Want(`{"id":6,"result":{"hashes":["` + tree.Sum(bad).String() + `"]}}`)
}
