package fs

import (
	"context"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

const (
	// parsedOverhead is what a byte of an expression may take parsed, with what the parser
	// leaves to the garbage collector.
	parsedOverhead = 512
	// smallExpression is up to how many bytes an expression is not charged for, and
	// compiled without a turn.
	smallExpression = 256
	// stepOverhead is what a step of a compiled expression takes, with what is needed
	// while it runs, in one goroutine; runeOverhead what a rune of a class takes.
	stepOverhead = 128
	runeOverhead = 12
	// maxWideClasses bounds the classes and ranges of an expression that may have
	// thousands of runes: each takes the parser milliseconds. maxClassRunes bounds the
	// ends of ranges in all classes together.
	maxWideClasses = 256
	maxClassRunes  = 512 << 10
)

// compiling has one long expression compiled at a time: the compiler cannot be
// interrupted, and many at once would leave no processor to others.
var compiling = semaphore.NewWeighted(1)

// compileExpression compiles text between before and after, which are the server's. It
// refuses what would take too many steps before it takes any memory for them, and charges
// for the others. The parsed form is of the whole.
func compileExpression(ctx context.Context, before, text, after string) (*regexp.Regexp, *syntax.Regexp, error) {
	if wideClasses(text) > maxWideClasses {
		return nil, nil, tooComplex("more than %d classes and ranges beyond ASCII", maxWideClasses)
	}
	if len(text) > smallExpression {
		if err := compiling.Acquire(ctx, 1); err != nil {
			return nil, nil, context.Cause(ctx)
		}
		defer compiling.Release(1)
		parsing := int64(len(text)) * parsedOverhead
		if err := rpc.Charge(ctx, parsing); err != nil {
			return nil, nil, err
		}
		defer rpc.Refund(ctx, parsing)
	}
	if _, err := syntax.Parse(text, syntax.Perl); err != nil { // alone, so that no bracket of ours closes one of it
		return nil, nil, err
	}
	parsed, err := syntax.Parse(before+text+after, syntax.Perl)
	if err != nil {
		return nil, nil, err
	}
	var size expressionSize
	steps := size.add(parsed)
	switch {
	case steps > protocol.MaxPatternSteps:
		return nil, nil, tooComplex("more than %d steps, repetitions and alternatives multiplied out", protocol.MaxPatternSteps)
	case size.runes > maxClassRunes:
		return nil, nil, tooComplex("more than %d ranges of characters", maxClassRunes/2)
	}
	held := int64(steps)*stepOverhead*int64(1+grepWorkers()) + int64(size.runes)*runeOverhead
	if err := rpc.Charge(ctx, held); err != nil {
		return nil, nil, err
	}
	re, err := regexp.Compile(before + text + after)
	return re, parsed, err
}

func tooComplex(format string, args ...any) error {
	return refused("pattern is too complex, it has %s; shorten it or search in several requests", fmt.Sprintf(format, args...))
}

// wideClasses counts what in text may be a class of thousands of runes: \p{…}, and ranges
// that end in a rune which is escaped or not ASCII.
func wideClasses(text string) int {
	n := strings.Count(text, `\p`) + strings.Count(text, `\P`)
	for i := range len(text) - 1 {
		if next := text[i+1]; text[i] == '-' && (next == '\\' || next >= utf8.RuneSelf) {
			n++
		}
	}
	return n
}

// expressionSize sums up what an expression takes compiled.
type expressionSize struct {
	runes int // of classes, which repetitions share
}

// add returns how many instructions re compiles to, about, and never much less. Above
// protocol.MaxPatternSteps it stops to count.
func (s *expressionSize) add(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = max(1, len(re.Rune))
	case syntax.OpCharClass:
		s.runes += len(re.Rune)
	}
	for _, sub := range re.Sub {
		if n += s.add(sub); n > protocol.MaxPatternSteps {
			return protocol.MaxPatternSteps + 1
		}
	}
	switch re.Op {
	case syntax.OpCapture:
		n++
	case syntax.OpRepeat:
		times := max(re.Max, re.Min+1) // x{2,} is xxx*
		if times > protocol.MaxPatternSteps/n {
			return protocol.MaxPatternSteps + 1
		}
		n = n*times + 1
	}
	return n
}
