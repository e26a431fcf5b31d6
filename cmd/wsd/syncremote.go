package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/client/computer"
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/lineage"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/relay/registry"
)

// syncTarget is a server that is to be synchronised with.
type syncTarget struct {
	url     string
	running *runningServer // whose URL it is, nil for others
	others  int            // servers of this user's that might be meant as well
}

// errNoWorkspace says that a server has no sync/*.
var errNoWorkspace = errors.New("the server keeps no workspace")

const workspaceHint = "'wsd serve --workspace DIR' serves one"

// take takes the URL that stands behind a directory, if there is one. Two servers are too many.
func (f *connectFlags) take(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if f.url != "" && f.url != args[0] {
		return usagef("leave one of them out", "two servers are named: --connect %s, and %s", quoted(f.url), quoted(args[0]))
	}
	f.url = args[0]
	return nil
}

// syncTarget finds the server that the flags, the environment or the runtime files name.
func (f *connectFlags) syncTarget() (*syncTarget, error) {
	if u := f.serverURL(); u != "" {
		return &syncTarget{url: u}, nil
	}
	dir, err := userRuntimeDir()
	if err != nil {
		return nil, err
	}
	servers, err := dir.servers()
	if err != nil {
		return nil, err
	}
	var t *syncTarget
	for i := range servers {
		switch {
		case servers[i].Workspace == "":
		case t == nil:
			t = &syncTarget{url: servers[i].URL, running: &servers[i]}
		default:
			t.others++
		}
	}
	if t != nil {
		return t, nil
	}
	return nil, withHint(errors.New("no server of yours keeps a workspace"), workspaceHint+"; for another machine's write its URL")
}

// identity is the same whenever it is the same server, as far as one can tell, and the same part of its
// tree: "" for its workspace, or a --remote-path.
func (t *syncTarget) identity(remotePath string) string {
	if remotePath != "" {
		return t.server() + " " + remotePath
	}
	return t.server()
}

// server is the same whenever it is the same server.
func (t *syncTarget) server() string {
	if t.running != nil {
		return "store:" + t.running.Store
	}
	u, err := url.Parse(t.url)
	if err != nil {
		return t.url
	}
	u.User, u.Fragment, u.RawQuery = nil, "", ""
	return strings.TrimSuffix(u.String(), "/")
}

// syncRemote is the remote side of a synchronisation.
type syncRemote struct {
	peer   changes.Peer
	mount  string         // in the server's tree, of the workspace or the part of it that is synchronised
	part   string         // the path of that in the workspace, "" for all of it
	client *client.Client // nil over capnweb
	// place is where the workspace is on the server's machine; nil if it does not say.
	place *protocol.WorkspacePlace
	close func() error
}

// syncSchemes are those of the URLs of servers that are synchronised with.
var syncSchemes = []string{"ws", "wss", "unix", "relay", "http", "https"}

// called is the server for an error: by its URL too, where no URL was given.
func (t *syncTarget) called() string {
	if t.running == nil {
		return "the server"
	}
	return fmt.Sprintf("%s at %s, the server that you started last", safe(t.running.Workspace), safe(t.url))
}

// dial connects to the server.
func (t *syncTarget) dial(ctx context.Context, a *app, f *syncFlags, opts client.Options) (*syncRemote, error) {
	if scheme, _, ok := strings.Cut(t.url, "://"); t.running == nil && (!ok || !slices.Contains(syncSchemes, strings.ToLower(scheme))) {
		return nil, usagef("write ws://HOST:PORT, wss://HOST:PORT, unix:///PATH, relay://HOST/ENVIRONMENT, or http://HOST:PORT or https://HOST:PORT for a server of the clients of Cloudflare's computer",
			"%q is no URL of a server to synchronise with", t.url)
	}
	if strings.HasPrefix(t.url, "http://") || strings.HasPrefix(t.url, "https://") {
		return t.dialComputer(ctx, f)
	}
	c, err := t.dialClient(ctx, a, f.connect, opts)
	if err != nil {
		return nil, err
	}
	r, err := clientRemote(ctx, c, f)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return r, nil
}

// dialWorkspace connects to the server with a workspace that the flags, the environment or
// the runtime files name; none is started.
func (f *connectFlags) dialWorkspace(ctx context.Context, a *app, opts client.Options) (*client.Client, error) {
	t, err := f.syncTarget()
	if err != nil {
		return nil, err
	}
	return t.dialClient(ctx, a, f, opts)
}

func (t *syncTarget) dialClient(ctx context.Context, a *app, f *connectFlags, opts client.Options) (*client.Client, error) {
	opts.ConnectTimeout = f.timeout
	if t.running != nil {
		return f.dialRunning(ctx, t.running, opts)
	}
	c, err := f.dialURL(ctx, a, t.url, opts)
	return c, wantsWorkspace(err)
}

// wantsWorkspace has a hint about starting a server start one with a workspace.
func wantsWorkspace(err error) error {
	if hinted, ok := errors.AsType[*hintedError](err); ok && hinted.hint == startHint {
		return withHint(err, "is the server running? 'wsd serve --workspace DIR' starts one and prints its URL")
	}
	return err
}

// tellServer names the server where it might be another one.
func (j *syncJob) tellServer() {
	t := j.target
	if t.others == 0 || j.local != nil && len(j.local.others) > 0 { // else tellOthers names it
		return
	}
	others := "1 other of yours has a workspace: its URL names it"
	if t.others > 1 {
		others = fmt.Sprintf("%d others of yours have a workspace: their URLs name them", t.others)
	}
	j.out.note("with %s at %s, which you started last; %s", safe(t.running.Workspace), safe(t.url), others)
}

// clientRemote is the workspace of a server that speaks JSON-RPC.
func clientRemote(ctx context.Context, c *client.Client, f *syncFlags) (*syncRemote, error) {
	can, err := c.Supports(ctx, protocol.CapSync)
	if err != nil {
		return nil, err
	}
	if !can {
		return nil, withHint(errNoWorkspace, workspaceHint)
	}
	info, err := c.Environment(ctx)
	if err != nil {
		return nil, err
	}
	mount, err := f.mount(info.WorkspaceMount)
	if err != nil {
		return nil, err
	}
	peer := c.Sync()
	if place := info.WorkspacePlace; place != nil && place.Store != "" {
		peer = &fixedPeer{peer, c.Environment, place.Store}
	}
	return &syncRemote{peer: peer, mount: mount, part: partOf(info.WorkspaceMount, mount), client: c, place: info.WorkspacePlace, close: c.Close}, nil
}

// mount is where in the server's tree it is that is synchronised. told is where the server says that its
// workspace is, "" for nothing: what is elsewhere in the tree reaches no disk, and no command.
func (f *syncFlags) mount(told string) (string, error) {
	if asked := f.remotePath; asked != "" && told != "" && asked != told && !strings.HasPrefix(asked, strings.TrimSuffix(told, "/")+"/") {
		return "", usagef("leave --remote-path out for the whole workspace, or name a directory in it, such as "+path.Join(safe(told), "src"),
			"--remote-path %s is not in the server's workspace, which is %s: files there would be in its store alone, on no disk", asked, told)
	}
	return firstSet(f.remotePath, told, disk.DefaultMount), nil
}

// partOf is a path in the server's tree as one in its workspace, which is where the server says, if it does.
func partOf(told, path string) string {
	all := strings.TrimSuffix(firstSet(told, disk.DefaultMount), "/")
	if path == all {
		return ""
	}
	return strings.TrimPrefix(path, all+"/")
}

// dialComputer connects to a computer, or to a wsd as one.
func (t *syncTarget) dialComputer(ctx context.Context, f *syncFlags) (*syncRemote, error) {
	opts := computer.Options{ConnectTimeout: f.connect.timeout}
	var err error
	if opts.Secret, err = f.connect.token(); err != nil {
		return nil, err
	}
	if opts.TLSConfig, err = f.connect.tls(""); err != nil {
		return nil, err
	}
	c, err := computer.Dial(ctx, t.url, &opts)
	if err != nil {
		return nil, wantsWorkspace(explainDial(t.url, err))
	}
	info := infoOfComputer(ctx, t.url, &opts)
	mount, err := f.mount(info.MountPoint)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &syncRemote{peer: c, mount: mount, part: partOf(info.MountPoint, mount), place: info.WorkspacePlace, close: c.Close}, nil
}

// infoLimit bounds what is read of a page that has a few fields.
const infoLimit = 64 << 10

// computerInfo is what a computer says of itself.
type computerInfo struct {
	MountPoint     string                   `json:"mountPoint"`
	WorkspacePlace *protocol.WorkspacePlace `json:"workspacePlace"`
}

// infoOfComputer asks a computer where its workspace is. It is empty for those that do not
// say: they have it at the usual place.
func infoOfComputer(ctx context.Context, base string, opts *computer.Options) (none computerInfo) {
	u, err := url.Parse(base)
	if err != nil {
		return none
	}
	u.Path, u.RawQuery, u.Fragment = "/__computerd/info", "", ""
	ctx, cancel := context.WithTimeout(ctx, max(opts.ConnectTimeout, computer.DefaultConnectTimeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return none
	}
	if opts.Secret != "" && (u.Scheme == "https" || registry.Loopback(u)) {
		req.Header.Set("Authorization", "Bearer "+opts.Secret)
	}
	web := http.Client{Transport: &http.Transport{TLSClientConfig: opts.TLSConfig, DisableKeepAlives: true}}
	res, err := web.Do(req)
	if err != nil {
		return none
	}
	defer res.Body.Close()
	var info computerInfo
	if json.NewDecoder(io.LimitReader(res.Body, infoLimit)).Decode(&info) != nil || res.StatusCode != http.StatusOK {
		return none
	}
	return info
}

// lostConnection reports whether an error is one of the connection.
func lostConnection(err error) bool {
	return errors.Is(err, client.ErrTransportClosed) || errors.Is(err, computer.ErrLost)
}

// overlaps refuses a directory that is the workspace of the server, holds it, or is in it,
// and one that the store of the server is in.
func (r *syncRemote) overlaps(dir string) error {
	if r.place == nil {
		return nil
	}
	here, err := lineage.Of(dir)
	if err != nil {
		return err
	}
	var how string
	switch holds, within := lineage.Holds(here, r.place.Lineage), lineage.Holds(r.place.Lineage, here); {
	case holds && within:
		how = "is the workspace of that server itself"
	case holds:
		how = "holds the workspace of that server"
	case within:
		how = "is in the workspace of that server"
	case lineage.Holds(here, r.place.StoreDir):
		how = "holds the store of the workspace"
	default:
		return nil
	}
	return usagef("give another directory, or the URL of another server", "%s %s, %s", dir, how, safe(r.place.Dir))
}

// overlapsState refuses a state that is in the workspace of the server.
func (r *syncRemote) overlapsState(file string) error {
	if r.place == nil {
		return nil
	}
	dir, err := lineage.Of(filepath.Dir(file))
	if err == nil && lineage.Holds(r.place.Lineage, dir) {
		err = usagef("choose another --state", "%s is in the workspace of the server, %s, and would be synchronised", file, safe(r.place.Dir))
	}
	return err
}

// A fixedPeer is a peer of a client that connects again by itself: it fails, as over a lost connection,
// once it is another store that the server has. It looks before a call, so that another server is sent nothing, and
// after it, since the client asks again where the connection is lost before the answer. Neither takes a call of its
// own. FetchObjects needs no look, since each content is checked by its hash, and neither does Await, which only says
// when to look again.
type fixedPeer struct {
	changes.Peer
	info  func(context.Context) (protocol.EnvironmentInfo, error) // of the latest connection
	store string
}

func (p *fixedPeer) check(ctx context.Context) error {
	info, err := p.info(ctx)
	if err == nil && info.WorkspacePlace != nil && info.WorkspacePlace.Store != p.store {
		err = fmt.Errorf("another workspace is served there now: %w", client.ErrTransportClosed)
	}
	return err
}

// around makes a call of the store, and fails if another one may have answered it.
func (p *fixedPeer) around(ctx context.Context, call func() error) error {
	err := p.check(ctx)
	if err == nil {
		err = call()
	}
	if err == nil {
		err = p.check(ctx)
	}
	return err
}

// Watermarks implements changes.Peer.
func (p *fixedPeer) Watermarks(ctx context.Context, settle bool) (w changes.Watermarks, err error) {
	err = p.around(ctx, func() (err error) { w, err = p.Peer.Watermarks(ctx, settle); return err })
	return w, err
}

// HasObjects implements changes.Peer.
func (p *fixedPeer) HasObjects(ctx context.Context, hashes []tree.Hash) (held []tree.Hash, err error) {
	err = p.around(ctx, func() (err error) { held, err = p.Peer.HasObjects(ctx, hashes); return err })
	return held, err
}

// FetchChanges implements changes.Peer. An open stream ends with its connection.
func (p *fixedPeer) FetchChanges(ctx context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	var f *changes.Fetch
	err := p.around(ctx, func() (err error) { f, err = p.Peer.FetchChanges(ctx, q); return err })
	if err != nil && f != nil {
		f.Entries.Close(err)
	}
	return f, err
}

// ReadEntry implements changes.Peer.
func (p *fixedPeer) ReadEntry(ctx context.Context, path string) (e *tree.Entry, err error) {
	err = p.around(ctx, func() (err error) { e, err = p.Peer.ReadEntry(ctx, path); return err })
	return e, err
}

// Lost implements changes.Peer.
func (p *fixedPeer) Lost(ctx context.Context, after int64, limit int) (list []lost.Version, more bool, err error) {
	err = p.around(ctx, func() (err error) { list, more, err = p.Peer.Lost(ctx, after, limit); return err })
	return list, more, err
}

// PushObjects implements changes.Peer.
func (p *fixedPeer) PushObjects(ctx context.Context, objects changes.Stream[tree.Data]) error {
	return p.send(ctx, objects.Close, func() error { return p.Peer.PushObjects(ctx, objects) })
}

// Push implements changes.Peer.
func (p *fixedPeer) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (r changes.PushResult, err error) {
	err = p.send(ctx, entries.Close, func() (err error) { r, err = p.Peer.Push(ctx, in, entries); return err })
	return r, err
}

// send is around for a call that closes the stream that it sends.
func (p *fixedPeer) send(ctx context.Context, closeStream func(error), call func() error) error {
	called := false
	err := p.around(ctx, func() error {
		called = true
		return call()
	})
	if !called {
		closeStream(err)
	}
	return err
}
