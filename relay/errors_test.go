package relay_test

import (
	"errors"

	"github.com/wsd-dev/wsd/relay/arq"
)

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func isDetached(err error) bool      { return errors.Is(err, arq.ErrDetached) }
func isGaveUp(err error) bool        { return is[*arq.GiveUpError](err) }
func isReset(err error) bool         { return is[*arq.ResetError](err) }
func isProtocolError(err error) bool { return is[*arq.ProtocolError](err) }
