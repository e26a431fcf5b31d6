package natsstate

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// IsURL reports whether ParseURL is meant for a --state value.
func IsURL(value string) bool {
	scheme, _, ok := strings.Cut(value, "://")
	return ok && (scheme == "nats" || scheme == "tls")
}

// ParseURL reads the configuration from a URL:
//
//	nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT][,HOST[:PORT]...][?OPTION=VALUE[&...]]
//
// The scheme tls demands TLS. Options: bucket, replicas, creds, nkey, user, password_file,
// ca, cert, key; those that name files are read when the connection is made. User,
// password and token are percent-decoded. Errors never repeat what stands before the @.
func ParseURL(value string) (Config, error) {
	scheme, rest, _ := strings.Cut(value, "://")
	if scheme != "nats" && scheme != "tls" {
		return Config{}, errors.New(`a NATS address begins with "nats://" or "tls://"`)
	}
	rest, query, _ := strings.Cut(rest, "?")
	cfg := Config{TLS: scheme == "tls"}

	// The last @, for a person may forget to escape one in a password.
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if err := cfg.parseUser(rest[:at]); err != nil {
			return Config{}, err
		}
		rest = rest[at+1:]
	}
	rest = strings.TrimSuffix(rest, "/")
	for host := range strings.SplitSeq(rest, ",") {
		address, err := parseHost(host)
		if err != nil {
			return Config{}, err
		}
		cfg.Servers = append(cfg.Servers, address)
	}
	return cfg, cfg.parseOptions(query)
}

func (cfg *Config) parseUser(text string) error {
	name, password, pair := strings.Cut(text, ":")
	user, err := url.PathUnescape(name)
	if err != nil {
		return errors.New("the user in the NATS address has a % that is not followed by two hexadecimal digits (write %25)")
	}
	if !pair {
		cfg.Token = Secret(user)
		return nil
	}
	secret, err := url.PathUnescape(password)
	if err != nil {
		return errors.New("the password in the NATS address has a % that is not followed by two hexadecimal digits (write %25)")
	}
	cfg.User, cfg.Password = user, Secret(secret)
	return nil
}

// parseHost returns HOST:PORT with the usual port of NATS where none is given.
func parseHost(text string) (string, error) {
	if text == "" {
		return "", errors.New("a NATS address names a host: nats://HOST:4222, or several with commas between them")
	}
	if strings.ContainsAny(text, "/@#") || strings.Contains(text, "://") {
		return "", fmt.Errorf("%q is not a host of a NATS address: several hosts are written as nats://h1:4222,h2:4222", text)
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil { // no port, or an IPv6 address without brackets, which could be either
		host, port = text, "4222"
		if inner, ok := strings.CutPrefix(text, "["); ok {
			host, _ = strings.CutSuffix(inner, "]")
		} else if strings.Contains(host, ":") {
			return "", fmt.Errorf("%q is not a host of a NATS address: write an IPv6 address in brackets", text)
		}
	}
	_, notIP := netip.ParseAddr(host)
	named := host != "" && !strings.ContainsAny(host, "[]: \t\r\n")
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || notIP != nil && !named {
		return "", fmt.Errorf("%q is not a host and port of a NATS address", text)
	}
	return net.JoinHostPort(host, port), nil
}

func (cfg *Config) parseOptions(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the options of the NATS address (behind the ?) cannot be read")
	}
	for name, list := range values {
		if len(list) != 1 || list[0] == "" {
			return fmt.Errorf("the option %s of the NATS address needs one value", name)
		}
		value := list[0]
		switch name {
		case "bucket":
			cfg.Bucket = value
		case "replicas":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > maxReplicas {
				return fmt.Errorf("replicas=%s of the NATS address: 1 to %d are possible", value, maxReplicas)
			}
			cfg.Replicas = n
		case "user":
			cfg.User = value
		case "password_file":
			cfg.PasswordFile = value
		case "creds":
			cfg.CredentialsFile = value
		case "nkey":
			cfg.NKeyFile = value
		case "ca":
			cfg.CAFile = value
		case "cert":
			cfg.CertFile = value
		case "key":
			cfg.KeyFile = value
		default:
			return fmt.Errorf("the NATS address has no option %q (there are bucket, replicas, user, password_file, creds, nkey, ca, cert, key)", name)
		}
	}
	if (cfg.CertFile == "") != (cfg.KeyFile == "") {
		return errors.New("the options cert and key of the NATS address belong together")
	}
	return nil
}
