package registry

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"
)

// A StatusError is an answer other than 2xx.
type StatusError struct {
	// Op is register, connect or validate; Host where it was asked.
	Op, Host string
	Status   int
	// Code and Message are the registry's, cut and without control characters; both may be empty.
	Code, Message string
}

func (e *StatusError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s: HTTP %d", e.Op, e.Host, e.Status)
	if e.Code != "" {
		b.WriteString(" " + e.Code)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if hint := e.hint(); hint != "" {
		b.WriteString(" (" + hint + ")")
	}
	return b.String()
}

// hint says what to do about it.
func (e *StatusError) hint() string {
	switch {
	case e.Status == http.StatusUnauthorized:
		return "the registry does not take the credential: check that the token is right, not expired and not revoked"
	case e.Status == http.StatusForbidden:
		return "the credential is not for this role or this environment: ask for a token that is"
	case e.Status == http.StatusNotFound:
		return "check the registry's URL and the environment id"
	case e.Status == http.StatusConflict && e.Code == CodeOffline:
		return "no executor is connected with this environment id: start one there, or check the id"
	case e.Code == CodeReplaced:
		return "two machines with copies of one identity file need one identity each; of two processes on one machine the later one goes on"
	case e.Status == http.StatusConflict && e.Op == OpRegister:
		return "another executor has this environment id: stop it, or choose another id"
	case e.Status == http.StatusTooManyRequests:
		return "too many requests or too much in use: try again later"
	case e.Status/100 == 3:
		return "redirects are not followed: give the URL that it leads to"
	case e.Status >= 500:
		return "the registry has a problem: try again later"
	}
	return ""
}

// An UnreachableError says that there was no answer, or not all of it, from any base URL.
type UnreachableError struct {
	Op, Host string
	// Sent says that the registry may have had the request.
	Sent bool
	Err  error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s at %s: no answer: %v", e.Op, e.Host, e.Err)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// A ResponseError is an answer that makes no sense, or is for somebody else.
type ResponseError struct {
	Op, Host string
	Problem  string
}

func (e *ResponseError) Error() string {
	return fmt.Sprintf("%s at %s: unusable answer: %s (is this an environment registry?)", e.Op, e.Host, e.Problem)
}

// A CredentialError says that the credential must not be sent there, or there is none to send.
type CredentialError struct{ Problem string }

func (e *CredentialError) Error() string { return e.Problem }

// A LoginError says that the file of a login cannot be read now. It may be read later.
type LoginError struct{ Err error }

func (e *LoginError) Error() string {
	return fmt.Sprintf("the login cannot be read now: %v", e.Err)
}

func (e *LoginError) Unwrap() error { return e.Err }

// clean makes a registry's text fit for a line of a log.
func clean(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	text = strings.TrimSpace(text)
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
