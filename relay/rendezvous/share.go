package rendezvous

// Shares divide what everybody uses: each may have as much as is left. So one alone has
// half of it at most, and there is always something for who comes next. It has no lock of
// its own.
type shares struct {
	all   map[string]int // by token id
	total int
}

// take counts one more of most for who, unless that is more than who may have.
func (s *shares) take(who string, most int) bool {
	if s.all[who] >= most-s.total {
		return false
	}
	if s.all == nil {
		s.all = map[string]int{}
	}
	s.all[who]++
	s.total++
	return true
}

// give takes one back.
func (s *shares) give(who string) {
	s.total--
	if s.all[who]--; s.all[who] == 0 {
		delete(s.all, who)
	}
}
