require 'pg'

$stdout.sync = true

attempt = lambda do |pause|
  c = PG.connect
  next c.exec(ENV['STATEMENT']) unless ENV['STATEMENT'].empty?

  c.transaction do
    c.exec_params('select ringfence.enter($1)', [ENV['PASS']])
    if pause
      puts 'inside'
      $stdin.gets
    end
    c.exec("insert into ledger values ('late')")
  end
end

[true, false].each do |pause|
  attempt.call(pause)
  puts 'STALE'
rescue PG::Error => e
  puts "#{e.result&.error_field(PG::PG_DIAG_SQLSTATE) || 'none'} #{e.class}: #{e.message.lines.first}"
end
