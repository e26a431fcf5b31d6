package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

// A codexLogin is the credential in the file that `codex login` wrote: the token and
// the account of a ChatGPT login, or an API key. Whoever refreshes the token writes
// the file anew; it is read again when it has changed.
type codexLogin struct {
	path string

	mu   sync.Mutex
	info iofs.FileInfo
	cred Credential
}

// CodexLoginFile is where `codex login` keeps the credential of dir.
func CodexLoginFile(dir string) string { return filepath.Join(dir, "auth.json") }

// CodexLogin returns the credential in dir/auth.json, where `codex login` keeps it.
// dir is usually $CODEX_HOME, or ~/.codex. A ChatGPT login goes over https, and over
// http to this machine; an API key where APIKey says.
func CodexLogin(dir string) (Credential, error) {
	l := &codexLogin{path: CodexLoginFile(dir)}
	if _, err := l.current(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *codexLogin) Authorize(req *http.Request) error {
	cred, err := l.current()
	if err != nil {
		return err
	}
	return cred.Authorize(req)
}

// current returns what the file says now. Its error is a *CredentialError if there is no
// login, and a *LoginError if that cannot be learned now.
func (l *codexLogin) current() (Credential, error) {
	f, err := os.Open(l.path)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return nil, &CredentialError{fmt.Sprintf("%s does not exist: run `codex login`, or give a token of the registry", l.path)}
	case err != nil:
		return nil, &LoginError{fmt.Errorf("open the login of codex: %w", err)}
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, &LoginError{fmt.Errorf("look at the login of codex: %w", err)}
	}

	l.mu.Lock()
	if same(l.info, info) {
		defer l.mu.Unlock()
		return l.cred, nil
	}
	l.mu.Unlock()
	data, err := io.ReadAll(io.LimitReader(f, maxAuthFile+1))
	if err != nil {
		return nil, &LoginError{fmt.Errorf("read the login of codex: %w", err)}
	}
	cred, err := parseLogin(l.path, data)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && l.cred != nil && !json.Valid(data) { // codex may be writing it
		return nil, &LoginError{errors.New(err.Error())}
	}
	if err != nil {
		return nil, err
	}
	l.info, l.cred = info, cred
	return cred, nil
}

// same reports whether a file is as it was.
func same(before, now iofs.FileInfo) bool {
	return before != nil && os.SameFile(before, now) && before.Size() == now.Size() && before.ModTime().Equal(now.ModTime())
}

// parseLogin reads the file. A ChatGPT login counts before an API key.
func parseLogin(path string, data []byte) (Credential, error) {
	if len(data) > maxAuthFile {
		return nil, &CredentialError{fmt.Sprintf("%s is longer than %d bytes", path, maxAuthFile)}
	}
	var file struct {
		APIKey string `json:"OPENAI_API_KEY"`
		Tokens *struct {
			AccessToken string `json:"access_token"`
			AccountID   string `json:"account_id"`
		} `json:"tokens"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		// The decoder's error might repeat what is in the file.
		return nil, &CredentialError{fmt.Sprintf("%s is not what `codex login` writes: run it again", path)}
	}
	switch {
	case file.Tokens != nil && file.Tokens.AccessToken != "":
		return newToken(file.Tokens.AccessToken, file.Tokens.AccountID, bearerRule)
	case file.APIKey != "":
		return APIKey(file.APIKey)
	}
	return nil, &CredentialError{fmt.Sprintf("%s holds no login: run `codex login`", path)}
}

// Format implements fmt.Formatter.
func (l *codexLogin) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// LogValue implements slog.LogValuer.
func (l *codexLogin) LogValue() slog.Value { return slog.StringValue(redacted) }
