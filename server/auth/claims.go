package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
)

// claims are those of a JWT that matter here, decoded more strictly than
// jwt.RegisteredClaims are: names are case-sensitive and given once, times are
// integers, exp is there.
type claims struct {
	expires    int64
	notBefore  *int64
	issuer     *string
	audience   []string
	jwt.Claims // not used: the parser wants the methods, the checks are ours
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *claims) UnmarshalJSON(b []byte) error {
	members, err := objectMembers(b)
	if err != nil {
		return err
	}
	if _, ok := members["exp"]; !ok {
		return errors.New("exp is missing")
	}
	for name, into := range map[string]any{"exp": &c.expires, "nbf": &c.notBefore, "iss": &c.issuer} {
		value, ok := members[name]
		if !ok {
			continue
		}
		if name == "exp" && bytes.Equal(value, []byte("null")) {
			return errors.New("exp is null")
		}
		if err := json.Unmarshal(value, into); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return c.setAudience(members["aud"])
}

// setAudience takes aud: a string, an array of strings, or nothing.
func (c *claims) setAudience(value json.RawMessage) error {
	if len(value) > 0 && value[0] == '"' {
		c.audience = make([]string, 1)
		return json.Unmarshal(value, &c.audience[0])
	}
	if len(value) == 0 {
		return nil
	}
	var all []*string
	if err := json.Unmarshal(value, &all); err != nil {
		return fmt.Errorf("aud: %w", err)
	}
	for _, one := range all {
		if one == nil {
			return errors.New("aud: null in the array")
		}
		c.audience = append(c.audience, *one)
	}
	return nil
}

// objectMembers takes an object apart and refuses a name that comes twice.
func objectMembers(b []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("the claims are no object")
	}
	members := make(map[string]json.RawMessage)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if _, twice := members[name.(string)]; twice {
			return nil, fmt.Errorf("claim %q comes twice", name)
		}
		members[name.(string)] = value
	}
	return members, nil
}
