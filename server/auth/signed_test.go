package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strings"
	"testing"
	"time"
)

var testKey = strings.Repeat("k", 40)

const hs256 = `{"alg":"HS256","typ":"JWT"}`

func segment(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// sign makes a JWT of a header and claims, with any hash and key.
func sign(header, claims string, h func() hash.Hash, key string) string {
	text := segment(header) + "." + segment(claims)
	mac := hmac.New(h, []byte(key))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func token(claims string) string { return sign(hs256, claims, sha256.New, testKey) }

// The refusals here are those of codex exec-server 0.171.0 for the same tokens, but
// for crit.
func TestJWT(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	with := func(extra string) string {
		return fmt.Sprintf(`{"exp":%d,"iss":"me","aud":"you"%s}`, now.Unix()+600, extra)
	}
	claims := func(format string, args ...any) string { return token(fmt.Sprintf(format, args...)) }
	at := func(d int64) int64 { return now.Unix() + d }
	good := token(with(""))

	for _, tc := range []struct {
		name, token string
		want        error // with issuer and audience configured
		plain       error // without
	}{
		{"good", good, nil, nil},
		{"unknown claims", token(with(`,"iat":"x","sub":5,"EXP":1`)), nil, nil},
		{"other typ", sign(`{"alg":"HS256","typ":"x"}`, with(""), sha256.New, testKey), nil, nil},
		{"no typ", sign(`{"alg":"HS256"}`, with(""), sha256.New, testKey), nil, nil},
		{"audience among others", claims(`{"exp":%d,"iss":"me","aud":["a","you"]}`, at(600)), nil, nil},
		{"null nbf", token(with(`,"nbf":null`)), nil, nil},

		{"no exp", token(`{"iss":"me","aud":"you"}`), InvalidJWT, InvalidJWT},
		{"exp in another case", claims(`{"EXP":%d,"iss":"me","aud":"you"}`, at(600)), InvalidJWT, InvalidJWT},
		{"exp null", token(`{"exp":null,"iss":"me","aud":"you"}`), InvalidJWT, InvalidJWT},
		{"exp with a fraction", claims(`{"exp":%d.0,"iss":"me","aud":"you"}`, at(600)), InvalidJWT, InvalidJWT},
		{"exp with an exponent", token(`{"exp":1e12,"iss":"me","aud":"you"}`), InvalidJWT, InvalidJWT},
		{"exp a string", claims(`{"exp":"%d","iss":"me","aud":"you"}`, at(600)), InvalidJWT, InvalidJWT},
		{"exp beyond 64 bits", token(`{"exp":99999999999999999999,"iss":"me","aud":"you"}`), InvalidJWT, InvalidJWT},
		{"exp twice", claims(`{"exp":1,"exp":%d,"iss":"me","aud":"you"}`, at(600)), InvalidJWT, InvalidJWT},
		{"nbf a string", token(with(`,"nbf":"1"`)), InvalidJWT, InvalidJWT},
		{"nbf with a fraction", token(with(`,"nbf":1.5`)), InvalidJWT, InvalidJWT},
		{"iss a number", claims(`{"exp":%d,"iss":5,"aud":"you"}`, at(600)), InvalidJWT, InvalidJWT},
		{"iss an array", claims(`{"exp":%d,"iss":["me"],"aud":"you"}`, at(600)), InvalidJWT, InvalidJWT},
		{"aud a number", claims(`{"exp":%d,"iss":"me","aud":5}`, at(600)), InvalidJWT, InvalidJWT},
		{"aud mixed", claims(`{"exp":%d,"iss":"me","aud":["you",5]}`, at(600)), InvalidJWT, InvalidJWT},
		{"aud with null", claims(`{"exp":%d,"iss":"me","aud":["you",null]}`, at(600)), InvalidJWT, InvalidJWT},
		{"claims an array", token(`[]`), InvalidJWT, InvalidJWT},
		{"claims cut short", token(`{"exp":`), InvalidJWT, InvalidJWT},

		{"expired within the skew", claims(`{"exp":%d,"iss":"me","aud":"you"}`, at(-30)), nil, nil},
		{"expired", claims(`{"exp":%d,"iss":"me","aud":"you"}`, at(-31)), ExpiredJWT, ExpiredJWT},
		{"expired before the epoch", token(`{"exp":-5,"iss":"me","aud":"you"}`), ExpiredJWT, ExpiredJWT},
		{"early within the skew", claims(`{"exp":%d,"nbf":%d,"iss":"me","aud":"you"}`, at(600), at(30)), nil, nil},
		{"early", claims(`{"exp":%d,"nbf":%d,"iss":"me","aud":"you"}`, at(600), at(31)), EarlyJWT, EarlyJWT},
		{"issuer", claims(`{"exp":%d,"iss":"x","aud":"you"}`, at(600)), IssuerMismatch, nil},
		{"no issuer", claims(`{"exp":%d,"aud":"you"}`, at(600)), IssuerMismatch, nil},
		{"audience", claims(`{"exp":%d,"iss":"me","aud":"x"}`, at(600)), AudienceMismatch, nil},
		{"no audience", claims(`{"exp":%d,"iss":"me"}`, at(600)), AudienceMismatch, nil},
		{"empty audience", claims(`{"exp":%d,"iss":"me","aud":[]}`, at(600)), AudienceMismatch, nil},
		{"expired counts before early", claims(`{"exp":%d,"nbf":%d}`, at(-100), at(100)), ExpiredJWT, ExpiredJWT},
		{"early counts before the issuer", claims(`{"exp":%d,"nbf":%d,"iss":"x"}`, at(600), at(100)), EarlyJWT, EarlyJWT},
		{"the issuer counts before the audience", claims(`{"exp":%d,"iss":"x","aud":"x"}`, at(600)), IssuerMismatch, nil},

		{"another key", sign(hs256, with(""), sha256.New, testKey+"x"), InvalidJWT, InvalidJWT},
		{"HS512", sign(`{"alg":"HS512"}`, with(""), sha512.New, testKey), InvalidJWT, InvalidJWT},
		{"alg in lower case", sign(`{"alg":"hs256"}`, with(""), sha256.New, testKey), InvalidJWT, InvalidJWT},
		{"alg none, unsigned", segment(`{"alg":"none"}`) + "." + segment(with("")) + ".", InvalidJWT, InvalidJWT},
		{"no alg", sign(`{}`, with(""), sha256.New, testKey), InvalidJWT, InvalidJWT},
		{"RS256, signed with the secret", sign(`{"alg":"RS256"}`, with(""), sha256.New, testKey), InvalidJWT, InvalidJWT},
		{"a critical extension", sign(`{"alg":"HS256","crit":["b64"],"b64":false}`, with(""), sha256.New, testKey), InvalidJWT, InvalidJWT},
		{"padded", good + "=", InvalidJWT, InvalidJWT},
		{"signature cut", good[:len(good)-2], InvalidJWT, InvalidJWT},
		{"no signature", good[:strings.LastIndexByte(good, '.')], InvalidJWT, InvalidJWT},
		{"one part", "abc", InvalidJWT, InvalidJWT},
		{"four parts", good + ".x", InvalidJWT, InvalidJWT},
		{"empty parts", "..", InvalidJWT, InvalidJWT},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, check := range []struct {
				cfg  Config
				want error
			}{{Config{Issuer: "me", Audience: "you"}, tc.want}, {Config{}, tc.plain}} {
				check.cfg.SharedSecretFile = write(t, testKey+"\n")
				v, err := newVerifier(check.cfg)
				if err != nil {
					t.Fatal(err)
				}
				v.now = func() time.Time { return now }
				if got := v.check(tc.token); !errors.Is(got, check.want) {
					t.Errorf("issuer %q: got %v, want %v", check.cfg.Issuer, got, check.want)
				}
			}
		})
	}
}

// Every bit of a token matters.
func TestJWTTampered(t *testing.T) {
	p := newPolicy(t, Config{Mode: ModeSignedBearerToken, SharedSecretFile: write(t, testKey)})
	good := token(fmt.Sprintf(`{"exp":%d}`, time.Now().Unix()+600))
	if err := authorize(p, "Bearer "+good); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := []byte(good)
		bad[i] ^= 1
		if err := authorize(p, "Bearer "+string(bad)); err == nil {
			t.Errorf("accepted with byte %d changed: %s", i, bad)
		}
	}
}

func TestClockSkew(t *testing.T) {
	none := time.Duration(0)
	p := newPolicy(t, Config{Mode: ModeSignedBearerToken, SharedSecretFile: write(t, testKey), ClockSkew: &none})
	late := token(fmt.Sprintf(`{"exp":%d}`, time.Now().Unix()-2))
	if err := authorize(p, "Bearer "+late); !errors.Is(err, ExpiredJWT) {
		t.Errorf("without skew: %v", err)
	}
}

func FuzzClaims(f *testing.F) {
	for _, seed := range []string{`{"exp":1}`, `{"exp":1,"aud":["a",null]}`, `[]`, `{"exp":1,"exp":2}`, `null`, `{"exp":9e9}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var c claims
		if err := c.UnmarshalJSON(b); err == nil && !strings.Contains(string(b), "exp") && !strings.Contains(string(b), `\u`) {
			t.Errorf("accepted without exp: %s", b)
		}
	})
}
