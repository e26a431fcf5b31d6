package registry

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
)

// A Credential proves to a registry who asks. Implementations never print it.
type Credential interface {
	// Authorize sets the headers of req, or says in a *CredentialError why the
	// credential must not be sent to req's URL, or in a *LoginError why it is not known now.
	// It does not wait for the network.
	Authorize(req *http.Request) error
}

// Bearer returns a credential that is a token of the registry's own. It goes to any
// host over https, and over http to this machine.
func Bearer(token string) (Credential, error) { return newToken(token, "", bearerRule) }

// APIKey returns a credential that is a key of the vendor's API. It goes to the
// vendor's hosts over https, and to this machine: to another it would give the
// account away. A self-hosted registry has tokens of its own.
func APIKey(key string) (Credential, error) { return newToken(key, "", apiKeyRule) }

// ChatGPT returns a credential that is the access token of a ChatGPT login, and the
// account that it is for. It goes over https only, not even http to this machine.
func ChatGPT(token, accountID string) (Credential, error) {
	return newToken(token, accountID, chatGPTRule)
}

// A token is a credential that stays the same.
type token struct {
	secret, account string
	rule            func(*url.URL) error
}

func newToken(secret, account string, rule func(*url.URL) error) (Credential, error) {
	if err := checkToken(secret); err != nil {
		return nil, err
	}
	if strings.ContainsFunc(account, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, &CredentialError{"the account id has characters that no account id has"}
	}
	return &token{secret: secret, account: account, rule: rule}, nil
}

// checkToken says whether secret may stand in a header.
func checkToken(secret string) error {
	switch {
	case secret == "":
		return &CredentialError{"the token is empty"}
	case len(secret) > MaxToken:
		return &CredentialError{fmt.Sprintf("the token is longer than %d bytes", MaxToken)}
	case strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }):
		return &CredentialError{"the token has white space or other characters that no token has: was more pasted than the token?"}
	}
	return nil
}

func (t *token) Authorize(req *http.Request) error {
	if err := t.rule(req.URL); err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+t.secret)
	if t.account != "" {
		req.Header.Set(HeaderAccountID, t.account)
	}
	return nil
}

// Format implements fmt.Formatter.
func (t *token) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// LogValue implements slog.LogValuer.
func (t *token) LogValue() slog.Value { return slog.StringValue(redacted) }

const redacted = "credential(redacted)"

// bearerRule: https, or http on loopback.
func bearerRule(u *url.URL) error {
	if u.Scheme == "https" || u.Scheme == "http" && Loopback(u) {
		return nil
	}
	return &CredentialError{fmt.Sprintf("a token is not sent to %s over %s, where others could read it: use https", host(u), u.Scheme)}
}

// vendorDomains are where keys of the vendor's API belong, with their subdomains.
var vendorDomains = []string{"openai.com", "chatgpt.com"}

// apiKeyRule: https to the vendor, or anything on loopback.
func apiKeyRule(u *url.URL) error {
	if Loopback(u) {
		return nil
	}
	name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	for _, domain := range vendorDomains {
		if u.Scheme == "https" && (name == domain || strings.HasSuffix(name, "."+domain)) {
			return nil
		}
	}
	return &CredentialError{fmt.Sprintf("an API key is not sent to %s, which would have the account with it: use a token that this registry issued", host(u))}
}

// chatGPTRule: https.
func chatGPTRule(u *url.URL) error {
	if u.Scheme == "https" {
		return nil
	}
	return &CredentialError{fmt.Sprintf("a ChatGPT token is not sent to %s over %s: use https", host(u), u.Scheme)}
}
