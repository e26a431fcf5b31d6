package process

import "unicode"

// matchGlob reports whether the whole of name matches glob: * stands for any text, ?
// for one character, and case does not count. It takes no more than the product of
// the lengths.
func matchGlob(glob, name string) bool {
	pattern, text := fold(glob), fold(name)
	p, t := 0, 0
	star, mark := -1, 0 // the last * and where the text after it began
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// fold makes characters that differ in case alone equal.
func fold(s string) []rune {
	runes := []rune(s)
	for i, r := range runes {
		runes[i] = unicode.ToLower(unicode.ToUpper(r))
	}
	return runes
}
