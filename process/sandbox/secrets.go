package sandbox

import (
	"errors"
	"os"
	"path"
	"path/filepath"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// systemSecrets are patterns of files in the directories of a minimal policy that no
// program needs to run. They are hidden whatever their modes are.
var systemSecrets = []string{
	"/etc/shadow*", "/etc/gshadow*", "/etc/.pwd.lock", "/etc/security/opasswd*", "/etc/sudoers", "/etc/sudoers.d", "/etc/doas.conf",
	"/etc/ssl/private", "/etc/pki/tls/private", "/etc/pki/private", "/etc/letsencrypt", "/etc/ssh/ssh_host_*_key",
	"/etc/krb5.keytab", "/etc/krb5kdc", "/etc/NetworkManager/system-connections", "/etc/wpa_supplicant*", "/etc/netplan",
	"/etc/wireguard", "/etc/openvpn", "/etc/ipsec.secrets", "/etc/ipsec.d/private", "/etc/ppp/*-secrets",
	"/etc/kubernetes", "/etc/rancher", "/etc/docker/key.json", "/etc/credstore*", "/etc/cryptsetup-keys.d", "/etc/luks*",
	"/etc/samba/private", "/etc/postfix/sasl_passwd*", "/etc/msmtprc", "/etc/fetchmailrc", "/etc/rndc.key", "/etc/bind/*.key",
}

// maxSystemFiles is how many entries of /etc are looked at for files that not everybody
// may read. A machine that has more gets no minimal policy.
const maxSystemFiles = 100_000

// hideSecrets denies to a policy that is minimal what is secret in /etc and what the
// policy does not name: systemSecrets, and everything that not every user may read,
// since the policy is for the system's programs, which run for every user.
func (b *builder) hideSecrets() error {
	if !b.policy.Minimal {
		return nil
	}
	for _, pattern := range systemSecrets {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return unavailablef("look for %s: %v", pattern, err)
		}
		for _, at := range matches {
			if err := b.hideSecret(at); err != nil {
				return err
			}
		}
	}
	left := maxSystemFiles
	return b.hideUnreadable("/etc", &left)
}

// hideSecret denies a path and what a link there leads to, unless a rule of the
// policy's own is for it or for a directory on the way there from /etc.
func (b *builder) hideSecret(at string) error {
	f, err := b.follow(at)
	if err != nil {
		return err
	}
	if !f.exists {
		return nil
	}
	for dir := at; slashpath.Within(dir, "/etc") && dir != "/etc"; dir = slashpath.Dir(dir) {
		if b.policy.has(dir) {
			return nil
		}
	}
	if _, named := findRule(b.rules, f.real); !named {
		b.put(f, Deny)
		b.own[f.real] = true
	}
	return nil
}

// hideUnreadable denies what is in dir, at any depth, that others than its owner and
// group may not read.
func (b *builder) hideUnreadable(dir string, left *int) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil // and the confined program, which has no more rights, reads none of it
	}
	if err != nil {
		return unavailablef("look for secrets in %s: %v", dir, err)
	}
	if *left -= len(entries); *left < 0 {
		return unavailablef("/etc has more than %d files, too many to look for secrets", maxSystemFiles)
	}
	for _, entry := range entries {
		at := path.Join(dir, entry.Name())
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return unavailablef("look at %s: %v", at, err)
		}
		if _, hidden := b.own[at]; hidden || info.Mode()&os.ModeSymlink != 0 {
			continue // a link gives no more than what it leads to
		}
		switch readable := info.Mode()&0o004 != 0; {
		case info.IsDir() && info.Mode()&0o001 != 0:
			err = b.hideUnreadable(at, left)
		case info.IsDir() || !readable:
			err = b.hideSecret(at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
