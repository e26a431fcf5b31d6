package changes

import (
	"context"
	"errors"
	"time"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/protocol"
)

// Lost lists what package lost keeps in the workspace's forest.
func (s *Server) Lost(ctx context.Context, after int64, limit int) (list []lost.Version, more bool, err error) {
	if after < 0 || limit < 0 {
		return nil, false, protocolErrorf("version %d and a limit of %d: neither may be negative", after, limit)
	}
	if limit == 0 || limit > MaxLost {
		limit = MaxLost
	}
	enough := errors.New("there are enough")
	err = lost.List(ctx, s.forest, after, func(v *lost.Version) error {
		if more = len(list) == limit; more {
			return enough
		}
		list = append(list, *v)
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return list, more, err
}

// LostToWire is the JSON form of versions that were lost.
func LostToWire(list []lost.Version) []protocol.LostVersion {
	out := make([]protocol.LostVersion, len(list))
	for i := range list {
		v := list[i]
		v.Entry.Rev = 0 // it is of no tree that the reader knows
		out[i] = protocol.LostVersion{
			ID: v.ID, At: protocol.Milliseconds(v.At.UnixMilli()), Why: string(v.Why), By: v.By, Entry: *EntryToWire(&v.Entry),
		}
	}
	return out
}

// LostFromWire are the versions that a JSON form stands for.
func LostFromWire(list []protocol.LostVersion) ([]lost.Version, error) {
	var out []lost.Version
	for i := range list {
		v := &list[i]
		e, err := EntryFromWire(&v.Entry)
		if err != nil {
			return nil, err
		}
		out = append(out, lost.Version{
			ID: v.ID, Path: e.Path, At: time.UnixMilli(int64(v.At)), Why: lost.Reason(v.Why), By: v.By, Entry: e,
		})
	}
	return out, nil
}
