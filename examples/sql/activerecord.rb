require 'active_record'

$stdout.sync = true
holder, attempt = ARGV
ActiveRecord::Base.establish_connection(
  adapter: 'postgresql', host: ENV['PGHOST'], port: ENV['PGPORT'], username: ENV['PGUSER'], database: ENV['PGDATABASE'],
  prepared_statements: false, advisory_locks: false
)
db = -> { ActiveRecord::Base.connection }
pass = nil

transfer = lambda do |pause|
  ActiveRecord::Base.transaction(isolation: ENV['LEVEL'].tr(' ', '_').to_sym) do
    db.call.execute("select ringfence.enter(#{db.call.quote(pass)})") # fence
    if pause
      puts 'inside'
      $stdin.gets
    end
    db.call.execute("insert into ledger values (#{db.call.quote(holder)})")
  end
end

until pass # fence
  term = db.call.select_one("select pass, ready from ringfence.take('orders', #{db.call.quote(holder)}, #{attempt.to_i})") # fence
  pass = term['pass'] if term['ready'] # fence
  sleep 0.01 # fence
end
transfer.call(false)
puts 'wrote'
[true, false].each do |pause|
  transfer.call(pause)
  puts 'STALE'
rescue ActiveRecord::StatementInvalid => e
  result = e.cause.respond_to?(:result) && e.cause.result
  puts result && result.error_field(PG::PG_DIAG_SQLSTATE) == 'RF001' ? 'refused' : 'ended'
  ActiveRecord::Base.connection.reconnect!
end
