using System.Net.Http.Headers;
using System.Net.Http.Json;
using System.Text.Json;
using Npgsql;

using var http = new HttpClient { Timeout = Timeout.InfiniteTimeSpan };
http.DefaultRequestHeaders.Authorization = new AuthenticationHeaderValue("Bearer", Environment.GetEnvironmentVariable("LEADER_HTTP_TOKEN"));
var ask = new HttpRequestMessage(HttpMethod.Post, Environment.GetEnvironmentVariable("AGENT") + "/v1/terms")
    { Content = JsonContent.Create(new { resource = "orders", holder = "dotnet" }) };
var answer = await http.SendAsync(ask, HttpCompletionOption.ResponseHeadersRead);
using var events = new StreamReader(await answer.Content.ReadAsStreamAsync());
NpgsqlConnection? guarded = null;
while (await events.ReadLineAsync() is { } line)
{
    var e = JsonDocument.Parse(line).RootElement;
    var what = e.GetProperty("event").GetString();
    Console.WriteLine(what);
    if (what == "leading")
    {
        guarded = new NpgsqlConnection(Environment.GetEnvironmentVariable("GUARDED") + ";Options=" + e.GetProperty("carry").GetProperty("PGOPTIONS").GetString());
        await guarded.OpenAsync();
    }
    if (what is "leading" or "alive")
        await new NpgsqlCommand("insert into ledger (note) values ('dotnet')", guarded).ExecuteNonQueryAsync();
}
