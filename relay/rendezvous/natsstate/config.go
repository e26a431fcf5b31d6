package natsstate

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"
)

// Timers and sizes. Those of an election are the servers' own: they take 4 to 9 seconds
// to replace a leader that died without a word, and none to replace one that was
// stopped in order.
const (
	// DefaultBucket is the name of the KV bucket.
	DefaultBucket = "wsd-relay"
	// DefaultReplicas is on how many servers of a cluster an entry is kept.
	DefaultReplicas = 3
	// DefaultOpenTimeout is how long Open waits for servers that are starting.
	DefaultOpenTimeout = 30 * time.Second
	// DefaultTimeout is how long a call may take. The registry's callers give up after
	// 6 (harness) and 10 seconds (executor).
	DefaultTimeout = 5 * time.Second

	// maxReplicas is what JetStream can do.
	maxReplicas = 5
	// connectTimeout is for one attempt at one server.
	connectTimeout = 3 * time.Second
	// reconnectWait is between two attempts at one server, with reconnectJitter more.
	reconnectWait   = 250 * time.Millisecond
	reconnectJitter = 250 * time.Millisecond
	// pingInterval and pingsOut: a server that is silent for at most 9 seconds is left.
	pingInterval = 3 * time.Second
	pingsOut     = 2
	// attemptTimeout is for one attempt of a call; it is repeated while the call has time.
	attemptTimeout = 1500 * time.Millisecond
	// dedupe is how long the servers know a write again that was sent twice.
	dedupe = 2 * time.Minute
	// moveInterval is between two moves to another server because this one does not get
	// anything done, as one that is cut off from its cluster.
	moveInterval = 5 * time.Second
	// retryWait is between two attempts at what has surely not been done yet, growing
	// to retryWaitMax; retries end with the call's time.
	retryWait    = 250 * time.Microsecond
	retryWaitMax = 250 * time.Millisecond
	// markerLife is how long the bucket remembers that a key was deleted.
	markerLife = 10 * time.Minute
	// pageEntries is how many entries one request of a listing asks for.
	pageEntries = 1000
	// pageBytes ends such an answer early.
	pageBytes = 8 << 20
	// maxValue is the largest value, in bytes. NATS itself refuses 1 MiB.
	maxValue = 256 << 10
	// maxHeader is room for what goes with a value.
	maxHeader = 4 << 10
)

// Config says where the servers are and how to speak to them.
type Config struct {
	// Servers are HOST:PORT; at least one. Others of the same cluster are learned from it.
	Servers []string
	// TLS demands TLS even where the server does not.
	TLS bool

	// One way to log in, or none: a user and password (or a file with one line that is
	// the password), a token, a credentials file (JWT), a file with an nkey seed.
	User            string
	Password        Secret
	PasswordFile    string
	Token           Secret
	CredentialsFile string
	NKeyFile        string

	// CAFile holds the certificates that the servers' are checked against, in place of
	// the system's. CertFile and KeyFile are for servers that want to see one.
	CAFile, CertFile, KeyFile string

	// Bucket is the name of the KV bucket; several relays may share one NATS with
	// different ones. "" is DefaultBucket.
	Bucket string
	// Replicas of each entry. 0 is 3 in a cluster, and 1 where the server is on its own;
	// then an existing bucket keeps what it has. Otherwise an existing bucket is changed.
	Replicas int

	// OpenTimeout and Timeout; 0 is the default.
	OpenTimeout, Timeout time.Duration
	// Logger, nil for none.
	Logger *slog.Logger

	// For tests: never leave the servers that were given, and take them in their order;
	// entries of a page; how long a deletion is remembered.
	pinned     bool
	ordered    bool
	page       int
	markerLife time.Duration
}

var bucketName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// withDefaults checks the configuration and fills in what it leaves out.
func (cfg Config) withDefaults() (Config, error) {
	if len(cfg.Servers) == 0 {
		return cfg, errors.New("no NATS server is given")
	}
	cfg.Bucket = cmp.Or(cfg.Bucket, DefaultBucket)
	if !bucketName.MatchString(cfg.Bucket) {
		return cfg, fmt.Errorf("%q cannot be the name of a bucket: letters, digits, _ and - can", cfg.Bucket)
	}
	if cfg.Replicas < 0 || cfg.Replicas > maxReplicas {
		return cfg, fmt.Errorf("%d replicas are not possible; 1 to %d are", cfg.Replicas, maxReplicas)
	}
	ways := 0
	for _, set := range []bool{cfg.User != "", cfg.Token != "", cfg.CredentialsFile != "", cfg.NKeyFile != ""} {
		if set {
			ways++
		}
	}
	if ways > 1 {
		return cfg, errors.New("several ways to log in to NATS are given; one is wanted")
	}
	if cfg.PasswordFile != "" && (cfg.User == "" || cfg.Password != "") {
		return cfg, errors.New("a password file for NATS needs a user, and no other password")
	}
	cfg.OpenTimeout = cmp.Or(cfg.OpenTimeout, DefaultOpenTimeout)
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.page = cmp.Or(cfg.page, pageEntries)
	cfg.markerLife = cmp.Or(cfg.markerLife, markerLife)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg, nil
}
