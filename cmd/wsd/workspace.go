package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/server/auth"
	"github.com/wsd-dev/wsd/server/sqlite"
	"github.com/wsd-dev/wsd/server/workspace"
)

// Environment variables of wsd serve --workspace, as the hosts of published clients set
// them when they start their daemon. Flags win over them.
const (
	envPort       = "PORT"
	envMountPoint = "MOUNT_POINT"
	envSecret     = workspace.SecretVariable
	envIgnore     = "MOUNT_IGNORE"
	envMaxLog     = "EXEC_LOG_MAX_BYTES"
)

// The values of --durability.
const (
	durabilityNormal = "normal"
	durabilityFull   = "full"
)

// storeFlags say which workspace a command is about.
type storeFlags struct {
	dir        string
	mountPoint string
	store      string
}

func (o *storeFlags) addFlags(f *pflag.FlagSet, doing string) {
	textFlag(f, &o.dir, "workspace", doing+" the workspace `DIR`")
	textFlag(f, &o.store, "store", "its store is `FILE` (default: NAME-KEY.db in\n$XDG_STATE_HOME/wsd/workspaces or ~/.local/state/wsd/workspaces)")
	f.StringVar(&o.mountPoint, "mount-point", disk.DefaultMount, "clients and commands see the workspace at `PATH`\n(default also from $"+envMountPoint+")")
}

// checkMount finds a mount point that is none.
func (o *storeFlags) checkMount() error {
	if !path.IsAbs(o.mountPoint) {
		return usagef("write --mount-point "+disk.DefaultMount, "invalid value %q for --mount-point: it is no absolute path", o.mountPoint)
	}
	return nil
}

// config is what the flags say. The mount point of the environment counts if there is none.
func (o *storeFlags) config(flags *pflag.FlagSet, log *slog.Logger) workspace.Config {
	if env := os.Getenv(envMountPoint); env != "" && !flags.Changed("mount-point") {
		o.mountPoint = env
	}
	return workspace.Config{Dir: o.dir, MountPoint: o.mountPoint, Store: o.store, Logger: log}
}

// workspaceOptions are the flags of wsd serve that are about a workspace.
type workspaceOptions struct {
	storeFlags
	watch      bool
	ignore     []string
	secret     string
	durability string
	lost       lostFlags
	runs       runsFlags
	garbage    garbageFlags
}

func (o *workspaceOptions) addFlags(f *pflag.FlagSet) {
	o.storeFlags.addFlags(f, "serve")
	f.BoolVar(&o.watch, "workspace-watch", true, "have the system tell what changes in the workspace; without,\nall of it is looked at each time")
	f.StringArrayVar(&o.ignore, "sync-ignore", nil, "hide what has a segment `NAME` in its path from clients that do not say\nwhat they leave out; wsd sync does (repeatable; default also from $"+envIgnore+")")
	f.StringVar(&o.secret, "secret", "", "ask for the bearer token `SECRET` on every page but /health.\nOthers on this machine see flags: $"+envSecret+" is better")
	f.StringVar(&o.durability, "durability", durabilityNormal, "`LEVEL` normal: what is acknowledged survives a crash of wsd;\nfull: also a power cut")
	o.lost.add(f)
	o.runs.add(f)
	o.garbage.add(f)
}

// names of the flags that mean nothing without --workspace.
var workspaceFlags = []string{"store", "mount-point", "workspace-watch", "sync-ignore", "durability", flagLostAge, flagLostBytes, flagRunLog, flagRunsAge, flagRunsBytes, flagGarbageBytes, flagGarbageShare}

// check finds what the flags themselves got wrong, and takes what the environment says.
func (o *workspaceOptions) check(cmd *cobra.Command, serve *serveOptions) error {
	flags := cmd.Flags()
	if o.dir == "" {
		for _, name := range workspaceFlags {
			if flags.Changed(name) {
				return usagef("write --workspace DIR too", "--%s is about a workspace, and none is served", name)
			}
		}
	}
	if err := o.checkMount(); err != nil {
		return err
	}
	if err := o.lost.check(); err != nil {
		return err
	}
	if err := o.runs.check(); err != nil {
		return err
	}
	if err := o.garbage.check(); err != nil {
		return err
	}
	if o.durability != durabilityNormal && o.durability != durabilityFull {
		return usagef(helpHint(cmd), "invalid value %q for --durability: want %s or %s", o.durability, durabilityNormal, durabilityFull)
	}
	if o.dir != "" {
		if err := o.fromEnvironment(cmd, serve); err != nil {
			return err
		}
	}
	ignore := "--sync-ignore"
	if !flags.Changed("sync-ignore") {
		ignore = "$" + envIgnore
	}
	for i, name := range o.ignore {
		name = strings.TrimPrefix(name, "**/")
		if name == "" || strings.ContainsAny(name, "/*!\x00") {
			return usagef("give the name of a file or directory, such as node_modules", "invalid value %q for %s: it is no name", o.ignore[i], ignore)
		}
		o.ignore[i] = name
	}
	if given := o.secret; given != "" {
		if o.secret = strings.TrimSpace(given); o.secret == "" {
			return usagef("unset $"+envSecret+" to serve without one", "the secret is blank")
		}
	}
	if o.secret != "" && serve.auth.Mode != "" {
		return usagef("--ws-auth capability-token --ws-token-file has a secret in a file", "--secret and --ws-auth exclude each other")
	}
	serve.auth.Secret = auth.Secret(o.secret)
	return nil
}

func (o *workspaceOptions) fromEnvironment(cmd *cobra.Command, serve *serveOptions) error {
	flags := cmd.Flags()
	if env := os.Getenv(envSecret); env != "" && o.secret == "" && serve.auth.Mode == "" {
		o.secret = env
	}
	if env := os.Getenv(envPort); env != "" && !flags.Changed("listen") {
		port, err := strconv.ParseUint(env, 10, 16)
		if err != nil {
			return usagef("unset it, or write --listen", "$%s is no port: %q", envPort, env)
		}
		// A container's host comes from outside of it; who may is known by the secret.
		host := "127.0.0.1"
		if o.secret != "" {
			host = "0.0.0.0"
		}
		serve.listen = fmt.Sprintf("ws://%s:%d", host, port)
	}
	if env, ok := os.LookupEnv(envIgnore); ok && !flags.Changed("sync-ignore") {
		o.ignore = []string{}
		for pattern := range strings.SplitSeq(env, ",") {
			if pattern = strings.TrimSpace(pattern); pattern != "" {
				o.ignore = append(o.ignore, strings.TrimRight(pattern, "/"))
			}
		}
	}
	if env := os.Getenv(envMaxLog); env != "" && !flags.Changed(flagRunLog) {
		n, err := strconv.ParseInt(env, 10, 64)
		if err != nil || n <= 0 {
			return usagef("unset it for 16 MiB", "$%s is no number of bytes: %q", envMaxLog, env)
		}
		o.runs.log = byteSize(n)
	}
	return nil
}

// open opens the workspace; nil if none is served.
func (o *workspaceOptions) open(ctx context.Context, cmd *cobra.Command, history *historyFlags, ended func(*eventlog.Record), log *slog.Logger) (*workspace.Workspace, error) {
	if o.dir == "" {
		return nil, nil
	}
	cfg := o.config(cmd.Flags(), log)
	cfg.Lost = o.lost.bounds()
	cfg.NoWatch, cfg.Ignore = !o.watch, o.ignore
	o.runs.config(&cfg)
	cfg.NoHistory = history.mode == historyOff
	cfg.NoArgs, cfg.CommandEnded = history.mode == historyNoArgs, ended
	cfg.Garbage = o.garbage.bounds()
	if o.durability == durabilityFull {
		cfg.Durability = sqlite.Full
	}
	w, err := workspace.Open(ctx, cfg)
	if err != nil {
		return nil, explainStore(err)
	}
	log.Info("serving a workspace", "dir", w.Dir, "mountPoint", w.MountPoint, "store", w.Store)
	if err := w.Unmounted(); err != nil {
		log.Warn("commands do not find the workspace at its mount point; they are started in its own directory", "dir", w.Dir, "mountPoint", w.MountPoint, "err", err)
	}
	return w, nil
}

// explainStore says what to do about a store that cannot be opened.
func explainStore(err error) error {
	switch {
	case errors.Is(err, sqlite.ErrInUse):
		return withHint(err, "'wsd doctor' lists your servers")
	case errors.Is(err, workspace.ErrNoDirectory):
		return withHint(err, "make it first: mkdir -p DIR")
	case errors.Is(err, workspace.ErrNoStore):
		return withHint(err, "'wsd serve --workspace DIR' makes one; --store names one that is elsewhere")
	default:
		return err
	}
}

// holdsSecret reports whether a variable of ours has a secret, and not the name of a file.
func holdsSecret(name string) bool {
	return name == envSecret || process.OwnSecret(name) && !strings.HasSuffix(name, "_FILE")
}

// forgetSecrets takes wsd's own secrets from where children, requests and other programs
// would find them. flag says that a flag had one.
func forgetSecrets(flag bool, log *slog.Logger) {
	given := flag
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); holdsSecret(name) {
			_ = os.Unsetenv(name) // fails for no name that there can be
			given = true
		}
	}
	if !given {
		return
	}
	if err := hideSecrets(); err != nil {
		log.Warn("commands can read the secret where the system shows how wsd was started", "err", err)
	}
}
