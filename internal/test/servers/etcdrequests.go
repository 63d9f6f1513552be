package servers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Requests counts the requests that clients have sent to a member, by method: of a stream, its
// messages.
func (m *EtcdMember) Requests(ctx context.Context) (map[string]int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Addr()+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return requestsIn(resp.Body)
}

func requestsIn(metrics io.Reader) (map[string]int, error) {
	all := map[string]int{}
	for lines := bufio.NewScanner(metrics); lines.Scan(); {
		labels, isOne := strings.CutPrefix(lines.Text(), "grpc_server_msg_received_total{")
		if !isOne {
			continue
		}
		_, method, _ := strings.Cut(labels, `grpc_method="`)
		method, _, _ = strings.Cut(method, `"`)
		_, value, _ := strings.Cut(labels, "} ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", lines.Text(), err)
		}
		all[method] += int(n)
	}
	return all, nil
}
