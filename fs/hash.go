package fs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/atomicfile"
	"github.com/wsd-dev/wsd/protocol"
)

// hashPrefix begins every hash, so that another function can follow one day.
const hashPrefix = "sha256:"

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hashPrefix + hex.EncodeToString(sum[:])
}

// hashFrom is the hash of all that r gives, if ctx lasts so long.
func hashFrom(ctx context.Context, r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.CopyBuffer(h, whileReader{ctx, r}, make([]byte, 256<<10)); err != nil {
		return "", err
	}
	return hashPrefix + hex.EncodeToString(h.Sum(nil)), nil
}

// condition is what a file must be for a write to happen.
type condition struct {
	match     string // the hash that it has
	noneMatch bool   // it does not exist
}

// newCondition reads the members of a request.
func newCondition(ifMatch, ifNoneMatch *string) (condition, error) {
	switch {
	case ifMatch != nil && ifNoneMatch != nil:
		return condition{}, protocol.InvalidParams("ifMatch and ifNoneMatch contradict each other")
	case ifMatch != nil:
		digits, ok := strings.CutPrefix(*ifMatch, hashPrefix)
		if sum, err := hex.DecodeString(digits); !ok || err != nil || len(sum) != sha256.Size || strings.ToLower(digits) != digits {
			return condition{}, protocol.InvalidParams("ifMatch must be %q and %d lower case hexadecimal digits", hashPrefix, 2*sha256.Size)
		}
		return condition{match: *ifMatch}, nil
	case ifNoneMatch != nil:
		if *ifNoneMatch != "*" {
			return condition{}, protocol.InvalidParams("ifNoneMatch must be %q", "*")
		}
		return condition{noneMatch: true}, nil
	}
	return condition{}, nil
}

// apply makes o see to the condition.
func (c condition) apply(ctx context.Context, o *atomicfile.Options, target *atomicfile.Target) {
	o.Exclusive = c.noneMatch
	if c.match == "" {
		return
	}
	o.Check = func() error {
		current, err := currentHash(ctx, target)
		if err != nil {
			return err
		}
		if current == nil || *current != c.match {
			return preconditionFailed("the file is not the one that ifMatch names", current)
		}
		return nil
	}
}

// failed replaces the error of a write that found a file where there was to be none.
func (c condition) failed(ctx context.Context, err error, target *atomicfile.Target) error {
	if !c.noneMatch || !isErrno(err, unix.EEXIST) {
		return err
	}
	current, err := currentHash(ctx, target)
	if err != nil {
		return err
	}
	return preconditionFailed("the file exists", current)
}

func preconditionFailed(text string, current *string) error {
	return &protocol.Error{
		Code: protocol.CodePreconditionFailed, Message: text,
		Data: protocol.PreconditionData{Kind: "preconditionFailed", CurrentHash: current},
	}
}

// currentHash is the hash of the regular file that target is now, nil if it is none.
func currentHash(ctx context.Context, target *atomicfile.Target) (*string, error) {
	f, err := target.Open()
	switch {
	case isErrno(err, unix.ENOENT):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil
	}
	hash, err := hashFrom(ctx, f)
	if err != nil {
		return nil, err
	}
	return &hash, nil
}
