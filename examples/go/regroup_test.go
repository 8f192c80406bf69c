package billing

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// regroup is a `regroup serve` for one test. It looks and acts through the control port.
//
// The command is `regroup`, or that of the environment variable REGROUP.
type regroup struct {
	t       *testing.T
	brokers []string
	control string
}

func startRegroup(t *testing.T, options ...string) *regroup {
	t.Helper()
	command := os.Getenv("REGROUP")
	if command == "" {
		command = "regroup"
	}
	words := []string{"serve", "--port", "0", "--control", "127.0.0.1:0", "--log-level", "error"}
	words = append(words, "--store", filepath.Join(t.TempDir(), "groups.db"))
	words = append(words, "--set", "group.initial.rebalance.delay.ms=0")
	server := exec.Command(command, append(words, options...)...)
	server.Stderr = os.Stderr
	// Without an input it would read the end of one, which is a command to end.
	input, err := server.StdinPipe()
	check(t, err)
	output, err := server.StdoutPipe()
	check(t, err)
	check(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
		_ = input.Close()
	})
	lines := bufio.NewScanner(output)
	started := &regroup{t: t}
	for started.control == "" && lines.Scan() {
		what, address, _ := strings.Cut(lines.Text(), " on ")
		if what == "control" {
			started.control = address
		} else {
			started.brokers = strings.Split(address, ",")
		}
	}
	if started.control == "" {
		t.Fatal("regroup has not started")
	}
	return started
}

type values map[string]any

// look asks for something, and waits for it if the path says so.
func (r *regroup) look(path string, query url.Values) values {
	r.t.Helper()
	response, err := http.Get(r.control + path + "?" + query.Encode())
	return r.answer(path, response, err)
}

// act changes something; it is durable when act returns.
func (r *regroup) act(path string, body values) values {
	r.t.Helper()
	encoded, err := json.Marshal(body)
	check(r.t, err)
	response, err := http.Post(r.control+path, "application/json", bytes.NewReader(encoded))
	return r.answer(path, response, err)
}

func (r *regroup) answer(path string, response *http.Response, err error) values {
	r.t.Helper()
	check(r.t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	check(r.t, err)
	if response.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %s", path, content)
	}
	var answer values
	check(r.t, json.Unmarshal(content, &answer))
	return answer
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// number writes a number that came as JSON.
func number(value any) string {
	return strconv.Itoa(int(value.(float64)))
}
