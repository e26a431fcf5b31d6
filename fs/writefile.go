package fs

import (
	"context"
	"errors"

	"github.com/wsd-dev/wsd/fs/atomicfile"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// newFileMode is that of files that are created, less the umask.
const newFileMode = 0o666

func (s *Service) writeFile(ctx context.Context, p *protocol.WriteFileParams) (*protocol.WriteFileResult, error) {
	path, err := fileuri.Path(p.Path)
	if err != nil {
		return nil, err
	}
	cond, err := newCondition(p.IfMatch, p.IfNoneMatch)
	if err != nil {
		return nil, err
	}
	mode, err := fileMode(p.Mode)
	if err != nil {
		return nil, err
	}
	target, err := atomicfile.Resolve(path, isTrue(p.FollowSymlinks))
	if err != nil {
		return nil, err
	}
	defer target.Close()
	unlock, err := s.host.locks.lock(ctx, target.Key())
	if err != nil {
		return nil, err
	}
	defer unlock()
	current, err := target.Inspect()
	if err != nil {
		return nil, err
	}
	// It may be the last use of the old content, whose space is then freed: that is
	// not for the client to wait for.
	defer func() { rpc.AfterReply(ctx, current.Close) }()
	if current != nil && !current.Regular() && !current.Device() {
		return nil, notAFile(path)
	}
	var o atomicfile.Options
	cond.apply(ctx, &o, target)
	if err := target.Write(current, p.DataBase64, mode, o); err != nil {
		return nil, cond.failed(ctx, err, target)
	}
	result := &protocol.WriteFileResult{}
	if isSet(p.IncludeHash) {
		result.Hash = hashOf(p.DataBase64)
	}
	return result, nil
}

// fileMode reads the mode of a file to be created.
func fileMode(mode *uint32) (uint32, error) {
	if mode == nil {
		return newFileMode, nil
	}
	return *mode, checkMode(*mode)
}

func checkMode(mode uint32) error {
	if mode > 0o7777 {
		return refused("mode must be between 0 and 4095 (07777)")
	}
	return nil
}

// writeFileParamsError gives bad base64 the code and text that only this method has.
func writeFileParamsError(err error) error {
	if reason, ok := errors.AsType[*wire.Base64Error](err); ok {
		return refused("%s requires valid base64 dataBase64: %v", protocol.MethodFsWriteFile, reason)
	}
	return protocol.InvalidParams("%s: %v", protocol.MethodFsWriteFile, err)
}
