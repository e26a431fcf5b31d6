package changes

import (
	"context"
	"errors"
	iofs "io/fs"
	"log/slog"
	"strings"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// DefaultPeer is what the peer is called of which there is one.
const DefaultPeer = "peer"

// DefaultIgnore is what a change stream leaves out when neither its reader nor the
// server's Config says.
var DefaultIgnore = []string{"node_modules"}

// Config says how a Server works. Its Workspace must be set.
type Config struct {
	Workspace Workspace
	// PeerID is under which name the peer's cursors are stored; "" for DefaultPeer. All
	// sessions of a Server are of that peer.
	PeerID string
	// DefaultIgnore is what FetchChanges leaves out when the call does not say; nil for
	// DefaultIgnore, an empty list for nothing.
	DefaultIgnore []string
	// SpoolDir is where entries wait that are too many for memory; "" for the system's
	// directory of temporary files. MaxSpooledBytes is how many of them, 0 for the
	// constant of that name.
	SpoolDir        string
	MaxSpooledBytes int64
	Logger          *slog.Logger // nil for none
}

// A Server is the Peer of a Workspace. It owns no goroutine and needs no closing; what a
// call has opened ends with its stream.
type Server struct {
	ws     Workspace
	forest *tree.Forest
	tree   *tree.Tree
	peer   string
	ignore []string
	spools spools // of pushes
	packs  spools // of packs that are made
	log    *slog.Logger
	// occupied is for peers of PlainNames.
	occupied occupied
	// pushing is held by the push that is applied, whose entries are all here: one push is
	// applied after the other, and none waits for another's sender.
	pushing chan struct{}
}

var _ Peer = (*Server)(nil)

// New returns the server of a workspace. There should be one for each.
func New(cfg Config) *Server {
	s := &Server{
		ws: cfg.Workspace, forest: cfg.Workspace.Forest(), tree: cfg.Workspace.Tree(),
		peer: cfg.PeerID, ignore: cfg.DefaultIgnore, log: cfg.Logger,
		pushing: make(chan struct{}, 1),
	}
	if s.peer == "" {
		s.peer = DefaultPeer
	}
	if s.ignore == nil {
		s.ignore = DefaultIgnore
	}
	if cfg.MaxSpooledBytes == 0 {
		cfg.MaxSpooledBytes = MaxSpooledBytes
	}
	for _, of := range []*spools{&s.spools, &s.packs} {
		of.dir, of.most = cfg.SpoolDir, cfg.MaxSpooledBytes
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

// Watermarks reads and changes nothing, apart from the tree's first one, which notes that
// there are peers (tree.Tree.Share). Without settle it waits for no change under way.
func (s *Server) Watermarks(ctx context.Context, settle bool) (Watermarks, error) {
	if err := s.tree.Share(ctx); err != nil {
		return Watermarks{}, err
	}
	if settle {
		if err := s.ws.Settle(ctx); err != nil {
			return Watermarks{}, settleError(err)
		}
	}
	// In this order: what the peer pushed is in the revision.
	p, err := s.tree.Peer(ctx, s.peer)
	if err != nil {
		return Watermarks{}, err
	}
	info, err := s.tree.Info(ctx)
	if err != nil {
		return Watermarks{}, err
	}
	last, err := lost.Last(ctx, s.forest)
	return Watermarks{CurrentRev: info.Rev, PushRev: p.Push.Rev, Fetch: p.Fetch, ChecksBase: true, SetsTimes: true, ChecksAlone: true, AnyNames: true, Lost: last, Skipped: s.ws.Skipped(nil)}, err
}

// ReadEntry takes an absolute path, which need not be canonical but may not lead above
// the root; else EINVAL. It knows of no ignore list and follows no links.
func (s *Server) ReadEntry(ctx context.Context, path string) (*tree.Entry, error) {
	clean, err := cleanPath(path)
	if err != nil {
		return nil, err
	}
	e, err := s.tree.Entry(ctx, clean)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &e, nil
}

// cleanPath makes a path canonical that a peer asks for.
func cleanPath(path string) (string, error) {
	if !strings.HasPrefix(path, "/") {
		return "", Invalid(path, "%w: not an absolute path", tree.ErrInvalid)
	}
	depth := 0
	for segment := range strings.SplitSeq(path, "/") {
		switch segment {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return "", Invalid(path, "%w: the path leads above the root", tree.ErrInvalid)
			}
		default:
			depth++
		}
	}
	clean, err := tree.Clean(path)
	if err != nil {
		return "", Invalid(path, "%w", err)
	}
	return clean, nil
}
