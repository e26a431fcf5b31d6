package lineage

import (
	"bufio"
	"os"
	"strings"
)

// bootID is the same until the machine is started again.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// mounts are those that this program sees; none when it is not told.
func mounts() []mount {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	var list []mount
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
		if fields := strings.Fields(lines.Text()); len(fields) > 4 {
			list = append(list, mount{fields[2], unescape.Replace(fields[3]), unescape.Replace(fields[4])})
		}
	}
	return list
}
