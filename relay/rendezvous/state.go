package rendezvous

import (
	"context"
	"errors"
)

// A Bucket is one kind of entry.
type Bucket string

// The buckets there are.
const (
	// BucketTokens has who may come in, by token id.
	BucketTokens Bucket = "tokens"
	// BucketRegistrations has the executor of each environment, by environment id.
	BucketRegistrations Bucket = "registrations"
	// BucketAuthorizations has what was handed to harnesses and not used yet.
	BucketAuthorizations Bucket = "authorizations"
	// BucketNodes has the nodes that live, by node id.
	BucketNodes Bucket = "nodes"
	// BucketSecrets has what URLs are signed with.
	BucketSecrets Bucket = "secrets"
)

// AnyRevision stands for whatever revision an entry has, or none.
const AnyRevision = ^uint64(0)

var (
	// ErrNotFound says that there is no such entry.
	ErrNotFound = errors.New("no such entry")
	// ErrConflict says that the entry does not have that revision.
	ErrConflict = errors.New("the entry has another revision")
)

// An Entry is a value with its key. A revision is never 0, and is never given twice to
// entries of one key, deleted or not.
type Entry struct {
	Key      string
	Value    []byte
	Revision uint64
}

// State is what the nodes of a relay share: small values, each of which changes as a
// whole. Keys are of A-Z a-z 0-9 _ and -. Values know themselves when they expire;
// a State keeps them until they are deleted.
//
// Everything is safe for concurrent use, by several processes too where the
// implementation says so. Suite: relay/rendezvous/statetest. Any other error than those
// named means that the State cannot be reached, and whether a change was made is then not
// known.
type State interface {
	// Get returns an entry, or ErrNotFound. It sees every change that has returned.
	Get(ctx context.Context, bucket Bucket, key string) (Entry, error)
	// Put writes an entry that has revision, that does not exist if revision is 0, or
	// in any case with AnyRevision; otherwise ErrConflict. It returns the new revision.
	Put(ctx context.Context, bucket Bucket, key string, value []byte, revision uint64) (uint64, error)
	// Delete deletes an entry that has revision, or any with AnyRevision. Of several
	// Deletes of one revision exactly one succeeds; the others get ErrNotFound or
	// ErrConflict.
	Delete(ctx context.Context, bucket Bucket, key string, revision uint64) error
	// List returns the entries of a bucket, sorted by key. Those that change meanwhile
	// may be as before or after.
	List(ctx context.Context, bucket Bucket) ([]Entry, error)
	Close() error
}
