package process

// Running counts the processes of all sessions that have not exited.
func (d *Directory) Running() int {
	n := 0
	for _, info := range d.all() {
		if !info.Exited {
			n++
		}
	}
	return n
}
